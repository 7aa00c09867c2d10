"""Quality of `predicted` against `barrier` over seeds, beside a perturbed-barrier control (D§9).

    python -m benchmarks.quality_control scene=../shared/data/bonsai images=images_4 steps=300 --seeds 3

Densification is chaotic: initial positions scaled by 1 + 1e-6 move the test PSNR of a barrier run by up to 0.2 dB.
So the spread of perturbed barriers is the noise floor of every comparison with densification, and a comparison
without densification stands beside it. Runs are unshaped and unpadded: the numerics are the same, and nothing is
timed. Records go to the usual store, so running again does only what is missing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from harness.cli import main as odin_bench
from harness.store.store import CellStore

UNTIMED = ("link=none", "padded=false", "mirrored=false")
PERTURBATIONS = (1e-6, 2e-6)


def runs(seed: int) -> list[tuple[str, ...]]:
    """Words of every sequence of one seed."""
    perturbed = [(f"seed={seed}", "arms=barrier", f"perturb={p:g}") for p in PERTURBATIONS]
    # barrier-planned separates what the order does from what predicted reads do.
    both = (f"seed={seed}", "arms=barrier,barrier-planned,predicted")
    return [both, *perturbed, (*both, "densify=false")]


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


def main(arguments: Sequence[str]) -> int:
    """Run what is missing, print the table and write it as CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("runs/quality-control"))
    given = parser.parse_args(arguments)
    worst = 0
    for seed in range(given.seeds):
        for words in runs(seed):
            command = ["reproduce", "headline", f"out={given.out}", *given.words, *UNTIMED, *words]
            worst = max(worst, odin_bench(command))
    frame = table(given.out)
    print(frame.to_string(index=False))
    frame.to_csv(given.out / "quality_control.csv", index=False)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
