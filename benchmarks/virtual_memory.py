"""Memory that a rank of the virtual engine takes, with one shared table and with a replica for each rank (D§7).

    python -m benchmarks.virtual_memory                       # rooms, 2, 8 and 32 ranks
    python -m benchmarks.virtual_memory scene=../shared/data/bonsai images=images_4 --ranks 8 64

Every line is a short training in a process of its own. `table` and `slots` are computed from the table's final size;
`process` is the most that the process held while it trained (resident set), and `per rank` what it held more than
before, by ranks: slots, scopes, a view's intermediate results, and the table where each rank has one. Densification is
off, so that N is the same for all lines.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pandas as pd

from harness.config import load
from harness.measure.resident import Resident
from harness.run.together import train
from harness.run.virtual import ranks_memory
from harness.run.workload import load_workload
from odin.arms import arm as arm_named
from odin.comm.link import UNSHAPED
from odin.errors import OdinError
from odin.keeper import NominalKeeper
from pipelines.render.cpu import warm_up as compile_renderer

CSV_COLUMNS = ["ranks", "arm", "tables", "rows", "table_bytes", "slot_bytes", "peak_bytes", "rank_bytes"]
DEFAULTS = ("engine=virtual", "views_per_unit=2", "steps=6", "densify=false", "link=none")
MB = 1e6


def line(words: Sequence[str], ranks: int, arm: str, share: bool) -> dict[str, object]:
    """Train, and one line of the CSV. Raises InputError for words that mean nothing."""
    workload = load_workload(load([*DEFAULTS, *words, f"ranks={ranks}"]))
    compile_renderer()
    assert workload.capture.photos  # converted before the training, like the compiled kernels
    resident = Resident()
    executed, _ = train(
        workload, arm_named(arm), UNSHAPED, lambda t: NominalKeeper(lambda phase, work: 1e-3), share=share
    )
    table = executed[0].recipe.table
    memory = ranks_memory(resident, table, ranks)
    known = {} if memory is None else memory.model_dump()
    return {"ranks": ranks, "arm": arm, "rows": len(table), **known}


def main(arguments: Sequence[str]) -> int:
    """One process for every line; print the table and write the CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 8, 32], metavar="W")
    parser.add_argument("--arm", default="quality")
    parser.add_argument("--out", type=Path, default=Path("runs/virtual-memory/virtual_memory.csv"))
    given = parser.parse_intermixed_args(arguments)
    lines: list[dict[str, object]] = []
    try:
        load([*DEFAULTS, *given.words])  # what means nothing is said before a process starts
        for ranks in given.ranks:
            for share in (True, False):
                fresh = multiprocessing.get_context("spawn")
                with ProcessPoolExecutor(max_workers=1, mp_context=fresh) as process:
                    lines.append(process.submit(line, given.words, ranks, given.arm, share).result())
                print(_sentence(lines[-1]), flush=True)
    except OdinError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    given.out.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(lines, columns=CSV_COLUMNS).to_csv(given.out, index=False)
    return 0


def _sentence(one: dict[str, object]) -> str:
    mb = {name: f"{float(str(one[name])) / MB:.1f}" if name in one else "n/a" for name in CSV_COLUMNS[4:]}
    return (
        f"{one['ranks']} ranks, {one['arm']}, {one['rows']} rows, {one.get('tables', '?')} table(s) of "
        f"{mb['table_bytes']} MB: slots {mb['slot_bytes']} MB per rank, process {mb['peak_bytes']} MB, "
        f"{mb['rank_bytes']} MB per rank"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
