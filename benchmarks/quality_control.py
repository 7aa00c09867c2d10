"""Quality of arms that are not exact against waiting in the same order, over seeds, beside a perturbed control (D§9).

    python -m benchmarks.quality_control scene=../shared/data/bonsai images=images_4 steps=300 --seeds 3

Densification is chaotic: initial positions scaled by 1 + 1e-6 moved the test PSNR of waiting runs by up to 1 dB. So
the spread of perturbed runs of the waiting arms is the noise floor of every comparison with densification, and a
comparison without densification stands beside it. `barrier` against `barrier-planned` shows what the order of views
does. Runs are unshaped and unpadded: the numerics are the same, and nothing is timed. Records go to the usual store, so
running again does only what is missing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from scipy.stats import t as student

from harness.cli import main as odin_bench
from harness.store.store import CellStore
from odin.arms import arm as arm_named

UNTIMED = ("link=none", "padded=false", "mirrored=false")
PERTURBATIONS = (1e-6, 2e-6)
REFERENCE = "barrier-planned"
WAITING = ("barrier", REFERENCE)
ARMS = (*WAITING, "throughput", "predicted", "predicted-random")


def runs(seed: int) -> list[tuple[str, ...]]:
    """Words of every sequence of one seed."""
    perturbed = [(f"seed={seed}", f"arms={','.join(WAITING)}", f"perturb={p:g}") for p in PERTURBATIONS]
    all_arms = (f"seed={seed}", f"arms={','.join(ARMS)}")
    return [all_arms, *perturbed, (*all_arms, "densify=false")]


def table(out: Path) -> pd.DataFrame:
    """One row per cell: seed, densify, arm, perturb, initial and final PSNR [dB], SSIM, primitives."""
    rows = []
    for result in CellStore(out).results():
        m, pipeline = result.measurement, result.cell.config["pipeline"]
        if m is None or not isinstance(pipeline, dict):
            continue
        rows.append(
            {
                "scene": result.cell.scene,
                "densify": pipeline["densify"],
                "seed": result.cell.seeds.run,
                "arm": result.cell.arm,
                "perturb": pipeline["perturb"],
                "psnr_initial": m.quality_initial.psnr.value,
                "psnr": m.quality_final.psnr.value,
                "ssim": m.quality_final.ssim.value,
                "primitives": m.primitives.final,
                "label": result.cell.label.value,
            }
        )
    return pd.DataFrame(rows).sort_values(["scene", "densify", "seed", "arm", "perturb"], ignore_index=True)


def deltas(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean over seeds of each arm's final PSNR [dB] and SSIM minus its reference's of the same seed, per scene.

    reference: the arm that waits in the same order of views; for `barrier` it is `barrier-planned`
    low, high: Student-t 95 % interval over seeds (absent for one seed); worst: the largest loss [dB];
    perturbed cells are the rows `… ×(1 + p)`, against the unperturbed cells of their arm
    """
    keys = ["scene", "densify", "seed", "reference"]
    plain = frame[frame["arm"].isin(WAITING) & (frame["perturb"] == 0)]
    base = plain.assign(reference=plain["arm"]).set_index(keys)[["psnr", "ssim"]]
    perturbed = frame["perturb"] != 0
    joined = frame.assign(reference=[reference_of(a, p) for a, p in zip(frame["arm"], perturbed, strict=True)])
    joined = joined.join(base.add_suffix("_reference"), on=keys)
    joined["delta"] = joined["psnr"] - joined["psnr_reference"]
    joined["delta_ssim"] = joined["ssim"] - joined["ssim_reference"]
    rows = []
    for key, group in joined.groupby(["scene", "densify", "arm", "reference", "perturb"]):
        scene, densify, arm, reference, perturb = key
        if arm == REFERENCE and not perturb:
            continue
        n, mean, spread = len(group), group["delta"].mean(), group["delta"].std()
        half = student.ppf(0.975, n - 1) * spread / n**0.5 if n > 1 else float("nan")
        rows.append(
            {
                "scene": scene,
                "densify": densify,
                "arm": f"{arm} ×(1 + {perturb:g})" if perturb else arm,
                "reference": reference,
                "seeds": n,
                "delta_db": mean,
                "low": mean - half,
                "high": mean + half,
                "worst": group["delta"].min(),
                "delta_ssim": group["delta_ssim"].mean(),
            }
        )
    return pd.DataFrame(rows)


def reference_of(name: str, perturbed: bool) -> str:
    """What an arm is compared with: itself unperturbed, or waiting in its own order; barrier shows what order does."""
    if perturbed:
        return name
    return REFERENCE if name == "barrier" else arm_named(name).reference


def main(arguments: Sequence[str]) -> int:
    """Run what is missing, print the table and write it as CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--out", type=Path, default=Path("runs/quality-control"))
    given = parser.parse_args(arguments)
    worst = 0
    for seed in range(given.first, given.first + given.seeds):
        for words in runs(seed):
            command = ["reproduce", "headline", f"out={given.out}", *given.words, *UNTIMED, *words]
            worst = max(worst, odin_bench(command))
    frame = table(given.out)
    print(frame.to_string(index=False))
    frame.to_csv(given.out / "quality_control.csv", index=False)
    summary = deltas(frame)
    print(f"\nAgainst the reference of the same seed:\n{summary.to_string(index=False, float_format='%.4f')}")
    summary.to_csv(given.out / "quality_deltas.csv", index=False)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
