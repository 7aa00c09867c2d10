"""Cost of keeping units in flight apart: Shadow Graph against full replication, per operation (Fig. 16 right).

    python -m benchmarks.shadow_graph --rows 10000 100000 1000000 --units 1 2 4

"Up to 257× cheaper" is all that the paper says of operation cost (caption of Fig. 16 and the sentence on it in
§6.3), "compared with full logical-state replication". It does not say which operations were measured, whether the
replicated state includes optimizer state, at how many primitives, or on what device; a public review asks for just
that. So 257× cannot be reproduced as such. Here both sides are code (`benchmarks.shadow_states`, which defines the
operations) and replication includes moments and gradients. Note that `alias` compares a constant with a copy of the
table: its ratio grows with N without limit, and any factor can be had by choosing N. `total` is what a unit pays in
this code: all operations but `alias`.

The table and the CSV hold medians over repetitions, of one unit's operation. In a repetition the two sides take
turns operation by operation, and who is first alternates. Milliseconds in the CSV are CPU time of the one thread
that does the work, which other load on the machine disturbs least; wall time stands beside it in the printed table.
Bytes are what all units in flight hold beyond the table: clones, row lists and gathered rows with `alias` and
`view`, gradients (the ring with its offsets; the units' own) with `stage`. No ratio is given for `refresh`, where
this code does nothing. With --pooled the replicated states are kept and overwritten instead of allocated for every
unit: the cheapest form of replication, and the fairest opponent of a ring that is allocated once.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from benchmarks.shadow_states import ReplicatedStates, ShadowStates, UnitStates, make_units
from pipelines.columns import COLUMNS

CSV_COLUMNS = [
    "rows", "units", "operation", "ours_ms", "replicated_ms", "ratio", "ours_bytes", "replicated_bytes",
]  # fmt: skip
OPERATIONS = ("alias", "view", "reuse", "stage", "refresh", "commit")
TOTAL = "total"
PAID = OPERATIONS[1:]
NOTHING_TO_DO = "refresh"
SHARE = 0.34  # a view's scope on bonsai, of all rows (SCOPES.md 1; .22 to .81 on the other captures)


@dataclass(kw_only=True)
class Cycle:
    """One repetition: seconds and bytes by (side, operation); side 0 is ours, 1 replication."""

    wall: dict[tuple[int, str], float] = field(default_factory=lambda: defaultdict(float))
    cpu: dict[tuple[int, str], float] = field(default_factory=lambda: defaultdict(float))
    held: dict[tuple[int, str], int] = field(default_factory=lambda: defaultdict(int))


def run_cycle(sides: Sequence[UnitStates], *, swapped: bool = False) -> Cycle:
    """Every unit through every operation on both sides. Units are viewed together; each is staged before its
    predecessor is committed, so that the ring of two slots suffices and all views are one update late or more."""
    cycle, order, numbers = Cycle(), list(enumerate(sides)), range(len(sides[0].units))
    if swapped:
        order.reverse()

    def run(operation: str, number: int) -> None:
        for side, states in order:
            method = getattr(states, operation)
            wall, cpu = time.perf_counter(), time.thread_time()
            method(number)
            cycle.cpu[side, operation] += time.thread_time() - cpu
            cycle.wall[side, operation] += time.perf_counter() - wall

    def held(*operations: str) -> None:
        for side, states in order:
            for operation in operations:
                cycle.held[side, operation] = states.private_bytes(operation)

    def publish(number: int) -> None:
        run("refresh", number)
        run("commit", number)

    for number in numbers:
        run("alias", number)
    held("alias")
    for states in sides:
        states.retire()
    for number in numbers:
        run("view", number)
    for number in numbers:
        run("reuse", number)
        run("stage", number)
        if number:
            publish(number - 1)
    publish(numbers[-1])
    held("view", "stage")
    for states in sides:
        states.retire()
    return cycle


def make_sides(rows: int, count: int, *, share: float, seed: int, pooled: bool) -> tuple[UnitStates, UnitStates]:
    """Shadow Graph and full replication over equal tables, for `count` units."""
    rng = np.random.default_rng(seed)
    units = make_units(rows, count, share, rng)
    parameters = torch.from_numpy(rng.standard_normal((rows, COLUMNS), np.float32))
    return ShadowStates(parameters, units), ReplicatedStates(parameters, units, pooled=pooled)


def compare(rows: int, units: int, *, repeat: int, share: float, seed: int, pooled: bool) -> pd.DataFrame:
    """Table of one size: `CSV_COLUMNS`, and wall milliseconds of both sides."""
    sides = make_sides(rows, units, share=share, seed=seed, pooled=pooled)
    run_cycle(sides)  # touches every page and compiles
    cycles = [run_cycle(sides, swapped=bool(number % 2)) for number in range(repeat)]
    lines = []
    for operation in (*OPERATIONS, TOTAL):
        parts = PAID if operation == TOTAL else (operation,)
        cpu, wall = (
            [
                1e3 / units * float(np.median([sum(getattr(c, kind)[side, part] for part in parts) for c in cycles]))
                for side in (0, 1)
            ]
            for kind in ("cpu", "wall")
        )
        held = [sum(cycles[-1].held[side, part] for part in parts) for side in (0, 1)]
        ratio = float("nan") if operation == NOTHING_TO_DO else cpu[1] / cpu[0]
        lines.append([rows, units, operation, *cpu, ratio, *held, *wall])
    return pd.DataFrame(lines, columns=[*CSV_COLUMNS, "ours_wall_ms", "replicated_wall_ms"])


def main(arguments: Sequence[str]) -> int:
    """Measure all sizes, print the table and write the CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000], help="primitives")
    parser.add_argument("--units", type=int, nargs="+", default=[1, 2, 4], help="task units in flight")
    parser.add_argument("--repeat", type=int, default=7, help="interleaved repetitions")
    parser.add_argument("--share", type=float, default=SHARE, help="rows in a unit's scope, of all rows")
    parser.add_argument("--pooled", action="store_true", help="replication overwrites its states")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/shadow-graph/shadow_graph.csv"))
    given = parser.parse_args(arguments)
    if min(*given.rows, *given.units, given.repeat) < 1 or not 0 < given.share <= 1:
        parser.error("--rows, --units and --repeat are at least 1, --share is above 0 and at most 1")
    torch.set_num_threads(1)  # CPU time is that of one thread
    sized = {"repeat": given.repeat, "share": given.share, "seed": given.seed, "pooled": given.pooled}
    frame = pd.concat([compare(rows, units, **sized) for rows in given.rows for units in given.units])
    print(frame.to_string(index=False, float_format=lambda value: f"{value:.4g}"))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    frame[CSV_COLUMNS].to_csv(given.out, index=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
