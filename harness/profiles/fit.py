"""Fit the bandwidth of one link per pipeline, so that `barrier` shows the exposed transfer of Fig. 1 (D§7).

    python -m harness.profiles.fit record ../shared/data      record the matrix scenes (minutes per scene)
    python -m harness.profiles.fit                            fit from the recordings and write the link profiles

β is fitted once per pipeline on the mean over the scenes and then fixed; each scene's own share is a result. A pipeline
without recordings of its own is fitted on those of another, and its profile says so.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Mapping
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

STEPS, SEED, RANKS, VIEWS_PER_UNIT = 24, 1, 8, 2
CAPTURES = ("bonsai", "south_building", "fox")  # at images_2; with rooms, and orbit when there is one
RECORDINGS = FOLDER / "recordings"
# The paper's share of transfer in a step, by pipeline (Fig. 1); 2DGS is not given there and takes that of 3DGS.
SHARES = {
    "3dgs": (0.229, "Fig. 1 of the paper, 3DGS"),
    "2dgs": (0.229, "Fig. 1 of the paper has no 2DGS; that of 3DGS"),
    "taming": (0.295, "Fig. 1 of the paper, TamingGS"),
    "dash": (0.323, "Fig. 1 of the paper, DashGS"),
}
TOLERANCE = 1e-5  # of ln β


def record_scenes(data: Path) -> None:
    """Record `barrier` on every matrix scene, seed 1, 8 ranks of 2 views."""
    for scene in ("rooms", *CAPTURES):
        words = ["scene=rooms"] if scene == "rooms" else [f"scene={data / scene}", "images=images_2"]
        ranks = [f"ranks={RANKS}", f"views_per_unit={VIEWS_PER_UNIT}"]
        workload = load_workload(load_config([*words, "engine=virtual", *ranks, f"steps={STEPS}", f"seed={SEED}"]))
        save(record_run(workload, "barrier"), RECORDINGS / f"3dgs-{scene}.parquet")
        print(f"recorded {scene}", file=sys.stderr, flush=True)


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
    recorded = pipeline if recordings(pipeline) else "3dgs"
    scenes = recordings(recorded)
    if not scenes:
        raise InputError(f"No recordings in {RECORDINGS}. Make them: python -m harness.profiles.fit record DATA.")
    share, source = SHARES[pipeline]
    prices, profile = committed_prices(compute), compute_profile(compute.name)
    beta = float(f"{fit_beta(scenes, prices, share, compute):.6g}")
    link = Link(name=f"fig1-{pipeline}", beta=beta).carrying(compute.scale_rows)
    stand_in = "" if recorded == pipeline else f" (recordings of {recorded} stand in for {pipeline})"
    return LinkProfile(
        name=f"fig1-{pipeline}",
        pipeline=pipeline,
        exposed=Constant(value=share, unit="transfer/step", kind=Kind.PUBLIC, source=source),
        beta=Constant(
            value=beta,
            unit="bytes/s",
            kind=Kind.FITTED,
            source=f"fitted by harness/profiles/fit.py to the exposed share, mean over scenes{stand_in}",
        ),
        fit=Fit(
            recorded=recorded,
            compute=f"{profile.name}@{digest(profile)}",
            scale_rows=compute.scale_rows,
            scale_pixels=compute.scale_pixels,
            overlap_slowdown=compute.overlap_slowdown,
            ranks=RANKS,
            views_per_unit=VIEWS_PER_UNIT,
            seed=SEED,
            steps=int(next(iter(scenes.values()))["step"].max()) + 1,
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
        record_scenes(Path(arguments[1]))
        return 0
    compute = load_config(["engine=virtual", "compute=rtx4090"]).compute
    for pipeline in SHARES:
        profile = fit(pipeline, compute)
        shares = ", ".join(f"{s.scene} {s.exposed:.1%}" for s in profile.fit.scenes)
        print(f"{profile.name}: {profile.beta.value / 1e9:.3f} GB/s ({shares}) → {write(profile)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
