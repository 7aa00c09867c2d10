"""Extra memory by number of logical regions K, from running trainings (Fig. 16 left; D§11 "flat").

    python -m benchmarks.shadow_memory                      # rooms, K = 1, 2, 4, 8, 16
    python -m benchmarks.shadow_memory scene=../shared/data/bonsai images=images_4 --regions 1 4 16

Each line is a short training with that K on one rank, whose arrays are measured at the end of every phase; bytes are
those of the moment with the most extra memory, by category (`odin.memory`). Densification is off, so that N is the
same for all K. K is lowered where a region could not fill a step, and the CSV says to what (0: plain order). Beside
it: the formula's upper bound, and full replication with one state per region, as we read the paper's K axis, which it
does not define.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from harness.config import load
from harness.run.workload import load_workload
from odin.arms import ARMS
from odin.comm.transport import SingleRank
from odin.errors import OdinError
from odin.memory import Memory, PeakKeeper, Sizes, replicated_memory, shadow_memory
from odin.runtime import Runtime

MEASURED = [name for name in asdict(Memory()) if name != "replicas"]
CSV_COLUMNS = [
    "regions", "regions_used", "arm", "rows", "batch", *MEASURED, "extra", "formula_extra", "replicated_extra",
]  # fmt: skip
DEFAULTS = ("ranks=1", "views_per_unit=4", "steps=24", "densify=false", "link=none", "padded=false")


def line(words: Sequence[str], regions: int, arm: str) -> dict[str, object]:
    """Train with K = `regions` under an arm; one line of the CSV. Raises InputError for words that mean nothing."""
    config = load([*DEFAULTS, *words, f"regions={regions}"])
    workload = load_workload(config)
    plan, recipe, keeper = workload.plan(ARMS[arm]), workload.recipe(), PeakKeeper()
    runtime = Runtime(recipe, plan, ARMS[arm], SingleRank(), keeper)
    keeper.holders = (recipe.table, runtime.publication)
    runtime.run()
    layout, peak = recipe.table.layout, keeper.peak
    sizes = Sizes(rows=len(recipe.table), columns=layout.columns, groups=len(layout.groups), batch=plan.global_batch)
    return {
        "regions": regions,
        "regions_used": plan.provenance["regions_used"],
        "arm": arm,
        "rows": sizes.rows,
        "batch": sizes.batch,
        **{name: getattr(peak, name) for name in MEASURED},
        "extra": peak.extra,
        "formula_extra": shadow_memory(sizes).extra,
        "replicated_extra": replicated_memory(sizes, regions).extra,
    }


def main(arguments: Sequence[str]) -> int:
    """Train with every K under every arm, print the table and write the CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--regions", type=int, nargs="+", default=[1, 2, 4, 8, 16], metavar="K")
    parser.add_argument("--arms", nargs="+", default=["quality", "predicted"], choices=list(ARMS))
    parser.add_argument("--out", type=Path, default=Path("runs/shadow-graph/shadow_memory.csv"))
    given = parser.parse_intermixed_args(arguments)
    try:
        lines = [line(given.words, regions, arm) for arm in given.arms for regions in given.regions]
    except OdinError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    frame = pd.DataFrame(lines, columns=CSV_COLUMNS)
    print(frame.to_string(index=False))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    frame.to_csv(given.out, index=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
