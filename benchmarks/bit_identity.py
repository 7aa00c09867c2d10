"""Exact arms against waiting training in the same order, bit for bit, over ranks and optimizers (D§5).

    python -m benchmarks.bit_identity scene=../shared/data/bonsai images=images_4 steps=300 --ranks 2 3 4 8

One sequence `barrier-planned, paper-quality, quality` (and `barrier, ddp` at 2 ranks) per number of ranks and
optimizer, unshaped and unpadded, with densification every 50 steps and an opacity reset after 120. More than two ranks
sum in rank order (`reduce=ordered`) and train one view each, so that the global batch stays small. Prints final states;
exits 1 when an exact arm ends in another one.
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
EVENTS = ("densify_every=50", "reset_at=[120]")
EXACT = ("barrier-planned", "paper-quality", "quality")
PAIRED = ("barrier", "ddp")  # bit-identical to each other


def words(ranks: int, optimizer: str, exact: Sequence[str] = EXACT) -> list[str]:
    """Settings of one sequence of `exact` arms."""
    # One rank's share of a step is dropped to one view where there are many, so that B stays small.
    unit, reduce = (2, "native") if ranks <= 2 else (1, "ordered")
    arms = (*exact, *(PAIRED if ranks == 2 and optimizer == "dense" else ()))
    shape = [f"ranks={ranks}", f"views_per_unit={unit}", f"reduce={reduce}", f"optimizer={optimizer}"]
    return [*shape, f"arms={','.join(arms)}"]


def table(out: Path) -> pd.DataFrame:
    """One row per cell: scene, ranks, optimizer, arm, final state, PSNR [dB], primitives, windows."""
    rows = []
    for result in CellStore(out).results():
        m, config = result.measurement, result.cell.config
        if m is None:
            continue
        rows.append(
            {
                "scene": result.cell.scene,
                "ranks": m.ranks,
                "optimizer": config["pipeline"]["optimizer"],  # type: ignore[index,call-overload]
                "arm": result.cell.arm,
                "steps": m.steps,
                "state": m.final_digest[:12],
                "psnr": m.quality_final.psnr.value,
                "primitives": m.primitives.final,
                "opened": m.windows.clear + m.windows.partial,
                "windows": m.windows.total,
            }
        )
    return pd.DataFrame(rows).sort_values(["scene", "ranks", "optimizer", "arm"], ignore_index=True)


def differing(frame: pd.DataFrame) -> list[str]:
    """One line per group of arms that should end in one state and does not."""
    found = []
    for key, group in frame.groupby(["scene", "ranks", "optimizer", "steps"]):
        for arms in (EXACT, PAIRED):
            states = group[group["arm"].isin(arms)]["state"]
            if states.nunique() > 1:
                found.append(f"{', '.join(map(str, key))}: {', '.join(arms)} end in {', '.join(sorted(set(states)))}")
    return found


def main(arguments: Sequence[str]) -> int:
    """Run what is missing, print the table, write it as CSV; 1 if states differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3, 4, 8])
    parser.add_argument("--optimizers", nargs="+", default=["dense", "selective"])
    parser.add_argument("--arms", nargs="+", choices=EXACT, default=EXACT, help="at least two, to be compared")
    parser.add_argument("--out", type=Path, default=Path("runs/bit-identity"))
    given = parser.parse_args(arguments)
    if len(set(given.arms)) < 2:
        parser.error("--arms needs two arms: one has nothing to be compared with")
    for ranks in given.ranks:
        for optimizer in given.optimizers:
            sequence = [*UNTIMED, *EVENTS, *given.settings, *words(ranks, optimizer, given.arms)]
            odin_bench(["reproduce", "headline", f"out={given.out}", *sequence])
    frame = table(given.out)
    print(frame.to_string(index=False))
    frame.to_csv(given.out / "bit_identity.csv", index=False)
    wrong = differing(frame)
    print("\n".join(wrong) if wrong else "All exact arms end in the state of barrier-planned.")
    return int(bool(wrong) or frame.empty)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
