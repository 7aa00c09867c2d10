"""Fit the bandwidth of one link per pipeline, so that `barrier` shows the exposed transfer of Fig. 1 (D§7).

    python -m harness.profiles.fit record ../shared/data [LINK...]   record the matrix scenes (minutes per link)
    python -m harness.profiles.fit                                   fit, and write the link profiles

A recording is `barrier` of one cell of the fixed matrix (D§11: `laptop-matrix.*`), at another seed: all its steps, with
what densification and resolution do to its payload and its work. β is fitted once per pipeline on the mean over the
scenes and then fixed; each scene's own share is a result.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from scipy.optimize import brentq

from harness.config import Compute
from harness.config import load as load_config
from harness.measure.profile import Profile
from harness.profiles.calibration import committed_prices
from harness.profiles.constants import Constant, Fit, FittedScene, Kind, LinkProfile, digest
from harness.profiles.load import FOLDER, compute_profile
from harness.profiles.recording import exposed, load, record_run, save
from harness.run.workload import load_workload
from harness.store.files import write_text
from odin.comm.link import Link
from odin.errors import InputError

STEPS, SEED, RANKS, VIEWS_PER_UNIT = 200, 1, 8, 2
CAPTURES, PROCEDURAL = ("bonsai", "south_building", "fox"), ("rooms", "orbit")
RECORDINGS = FOLDER / "recordings"
PIPELINES = {"3dgs": "3dgs", "2dgs": "2dgs", "taming": "taminggs", "dash": "dashgs"}  # link → pipeline
# The paper's share of transfer in a step, by pipeline (Fig. 1); 2DGS is not given there and takes that of 3DGS.
SHARES = {
    "3dgs": (0.229, "Fig. 1 of the paper, 3DGS"),
    "2dgs": (0.229, "Fig. 1 of the paper has no 2DGS; that of 3DGS"),
    "taming": (0.295, "Fig. 1 of the paper, TamingGS"),
    "dash": (0.323, "Fig. 1 of the paper, DashGS"),
}
TOLERANCE = 1e-5  # of ln β


def record_scenes(data: Path, links: Sequence[str]) -> None:
    """Record `barrier` of the pipelines of some links on every matrix scene. Raises InputError for an unknown link."""
    for link in links:
        if link not in PIPELINES:
            raise InputError(f"There is no link fig1-{link}. Links are named {', '.join(PIPELINES)}.")
    for link in links:
        for scene in (*PROCEDURAL, *CAPTURES):
            workload = load_workload(load_config(words(link, scene, data)))
            save(record_run(workload, "barrier"), RECORDINGS / f"{link}-{scene}.parquet")
            print(f"recorded {link} on {scene}", file=sys.stderr, flush=True)


def words(link: str, scene: str, data: Path) -> list[str]:
    """The matrix cell of a link's pipeline on a scene, at the seed of the fit. data: folder of the captures."""
    where = [f"scene={scene}"] if scene in PROCEDURAL else [f"scene={data / scene}", "images=images_4"]
    ranks = [f"ranks={RANKS}", f"views_per_unit={VIEWS_PER_UNIT}", f"steps={STEPS}", f"seed={SEED}"]
    return [*where, f"pipeline={PIPELINES[link]}", "engine=virtual", "mirrored=false", *ranks]


def recordings(pipeline: str) -> dict[str, pd.DataFrame]:
    """Scene → recording of a pipeline."""
    files = sorted(RECORDINGS.glob(f"{pipeline}-*.parquet"))
    return {path.stem.partition("-")[2]: load(path) for path in files}


def mean_share(scenes: Mapping[str, pd.DataFrame], prices: Profile, link: Link, slowdown: float) -> float:
    """Exposed transfer ÷ step, mean over scenes."""
    parts = [exposed(r, prices.price, link, slowdown) for r in scenes.values()]
    return sum(transfer / wall for wall, transfer in parts) / len(parts)


def fit_beta(scenes: Mapping[str, pd.DataFrame], prices: Profile, share: float, compute: Compute) -> float:
    """Bytes/s at which the mean share is met; a slower link exposes more."""

    def excess(log_beta: float) -> float:
        link = Link(name="fit", beta=math.exp(log_beta)).carrying(compute.scale_rows)
        return mean_share(scenes, prices, link, compute.overlap_slowdown) - share

    return math.exp(brentq(excess, math.log(1e8), math.log(1e13), xtol=TOLERANCE))


def fit(pipeline: str, compute: Compute) -> LinkProfile:
    """The link of a pipeline. Raises InputError without recordings."""
    scenes = recordings(pipeline)
    steps = {scene: int(recording["step"].max()) + 1 for scene, recording in scenes.items()}
    if steps != dict.fromkeys((*CAPTURES, *PROCEDURAL), STEPS):
        raise InputError(
            f"Recordings of {pipeline} in {RECORDINGS} are {steps or 'absent'}; {STEPS} steps of each of "
            f"{', '.join((*CAPTURES, *PROCEDURAL))} are needed. Make them: python -m harness.profiles.fit record DATA "
            f"{pipeline}."
        )
    share, source = SHARES[pipeline]
    prices, profile = committed_prices(compute), compute_profile(compute.name)
    beta = float(f"{fit_beta(scenes, prices, share, compute):.6g}")
    link = Link(name=f"fig1-{pipeline}", beta=beta).carrying(compute.scale_rows)
    return LinkProfile(
        name=f"fig1-{pipeline}",
        pipeline=pipeline,
        exposed=Constant(value=share, unit="transfer/step", kind=Kind.PUBLIC, source=source),
        beta=Constant(
            value=beta,
            unit="bytes/s",
            kind=Kind.FITTED,
            source="fitted by harness/profiles/fit.py to the exposed share, mean over scenes",
        ),
        fit=Fit(
            recorded=pipeline,
            compute=f"{profile.name}@{digest(profile)}",
            scale_rows=compute.scale_rows,
            scale_pixels=compute.scale_pixels,
            overlap_slowdown=compute.overlap_slowdown,
            ranks=RANKS,
            views_per_unit=VIEWS_PER_UNIT,
            seed=SEED,
            steps=STEPS,
            scenes=tuple(_scene(name, r, prices, link, compute) for name, r in scenes.items()),
        ),
    )


def _scene(name: str, recording: pd.DataFrame, prices: Profile, link: Link, compute: Compute) -> FittedScene:
    wall, transfer = exposed(recording, prices.price, link, compute.overlap_slowdown)
    steps = int(recording["step"].max()) + 1
    rows = int(recording.loc[recording["name"] == "clear", "rows"].iloc[0])
    return FittedScene(scene=name, rows=rows, exposed=transfer / wall, step=wall / steps, transfer=transfer / steps)


def write(profile: LinkProfile) -> Path:
    """The profile as YAML below results/profiles/link."""
    from omegaconf import OmegaConf

    with tempfile.NamedTemporaryFile("r+", suffix=".yaml") as file:
        OmegaConf.save(OmegaConf.create(profile.model_dump(mode="json")), file.name)
        text = Path(file.name).read_text(encoding="utf-8")
    path = FOLDER / "link" / f"{profile.name}.yaml"
    write_text(path, "# Written by harness/profiles/fit.py; the recordings beside this folder are its inputs.\n" + text)
    return path


def main(arguments: list[str]) -> int:
    """Record, or fit and write."""
    if arguments[:1] == ["record"]:
        record_scenes(Path(arguments[1]), arguments[2:] or list(PIPELINES))
        return 0
    compute = load_config(["engine=virtual", "compute=rtx4090"]).compute
    for pipeline in SHARES:
        profile = fit(pipeline, compute)
        shares = ", ".join(f"{s.scene} {s.exposed:.1%}" for s in profile.fit.scenes)
        print(f"{profile.name}: {profile.beta.value / 1e9:.3f} GB/s ({shares}) → {write(profile)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
