"""What scopes and admission cost a step of training, in CPU time (D§11: ≤ 3 % of the CPU renderer's step).

    python -m benchmarks.admission scene=../shared/data/bonsai images=images_4 steps=60

Trains rank 0 of the engine's ranks in this process, under `barrier-planned` and under `--arm`, and prints the CPU
milliseconds per step of every phase, medians over steps without a structural event and then over --repeat trainings of
each arm, taken in turn. The other ranks' gradients are taken as zero: what rank 0 does in a step is the same, and
nothing else runs beside it. `scopes` takes the conservative scopes of all views of a step, `hazards` compares those of
two steps and cuts the slot, `clear` zeroes and lays it out (in every arm), `between` is what no phase covers;
`hazard_pass` is the hazard pass alone, a part of `hazards`. Nothing is padded and no time on the wall is read. Exits 1
where --limit is given and the share exceeds it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from harness.config import load
from harness.run.workload import Workload, compile_kernels, load_workload
from odin.arms import arm
from odin.comm.transport import SingleRank
from odin.errors import InputError
from odin.keeper import Keeper
from odin.losses import StepRecord
from odin.phases import Phase
from odin.publication import scoped
from odin.runtime import Runtime

UNTIMED = ("link=none", "padded=false")
BARRIER = "barrier-planned"
ADMISSION = (Phase.SCOPES.value, Phase.HAZARDS.value)
STEP, BETWEEN, PASS = "step", "between", "hazard_pass"
WARM = 5  # steps before the first that counts


class Alone(SingleRank):
    """Rank 0 of several; the others add nothing to a sum."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks


class OneReplica(Runtime):
    """The training loop of a rank without others to compare its table with."""

    def require_equal_replicas(self, step: int) -> None:
        """There is one."""


@contextmanager
def hazard_passes() -> Iterator[list[float]]:
    """CPU milliseconds of each hazard pass that is run meanwhile."""
    taken, classify = [], scoped.classify

    def timed(*scopes: Any, **more: Any) -> Any:
        start = time.thread_time()
        labels = classify(*scopes, **more)
        taken.append(1e3 * (time.thread_time() - start))
        return labels

    scoped.classify = timed
    try:
        yield taken
    finally:
        scoped.classify = classify


def measure(workload: Workload, name: str) -> pd.Series:
    """CPU milliseconds per step by phase under an arm, with `between` and the whole `step`."""
    ends: list[float] = []

    def on_step(_: StepRecord) -> None:
        ends.append(time.thread_time())

    keeper, plan = Keeper(), workload.plan(arm(name))
    runtime = OneReplica(workload.recipe(), plan, arm(name), Alone(plan.ranks), keeper)
    runtime.run(on_step=on_step)
    entries = [entry for entry in keeper.entries if entry.kind == "phase"]
    frame = pd.DataFrame({"step": e.step, "phase": e.name, "ms": 1e3 * e.cpu} for e in entries)
    table = frame.pivot_table(index="step", columns="phase", values="ms", aggfunc="sum", fill_value=0.0)
    table[STEP] = 1e3 * pd.Series(ends).diff()  # of rank 0's thread
    table[BETWEEN] = table[STEP] - table.drop(columns=STEP).sum(axis=1)
    structural = {record.step for record in runtime.records if record.structural}
    kept = [s for s in table.index if s >= WARM and not {s, s - 1} & structural]
    if not kept:
        raise InputError(f"All steps are structural or among the first {WARM}. Train more of them: steps=60.")
    return table.loc[kept].median()


def compared(workload: Workload, name: str, repeats: int = 1) -> pd.DataFrame:
    """One line per phase: CPU ms per step under `barrier-planned` and the arm, medians over repeats, and the share of
    the arm's step."""
    with hazard_passes() as passes:  # `barrier-planned` has none
        taken = [(measure(workload, BARRIER), measure(workload, name)) for _ in range(repeats)]
    medians = [pd.concat(runs, axis=1).median(axis=1) for runs in zip(*taken, strict=True)]
    frame = pd.DataFrame(dict(zip((BARRIER, name), medians, strict=True))).fillna(0.0)
    order = [phase.value for phase in Phase if phase.value in frame.index]
    frame = frame.loc[[*order, BETWEEN, STEP]]
    frame.loc[PASS] = {BARRIER: 0.0, name: statistics.median(passes or [0.0])}
    frame["share_%"] = 100.0 * frame[name] / frame.loc[STEP, name]
    return frame


def main(arguments: Sequence[str]) -> int:
    """Print the table and its last line; 1 where the limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--arm", default="quality", help="an arm with scopes (default quality)")
    parser.add_argument("--repeat", type=int, default=3, help="trainings of each arm (default 3)")
    parser.add_argument("--limit", type=float, help="largest share in %% that is accepted")
    parser.add_argument("--csv", type=Path, help="write the table here too")
    given = parser.parse_args(arguments)
    config = load([*UNTIMED, *given.settings])
    compile_kernels(config)
    workload = load_workload(config)
    frame = compared(workload, given.arm, max(given.repeat, 1))
    print(frame.to_string(float_format="{:.3f}".format))
    spent, step = frame.loc[list(ADMISSION), given.arm].sum(), frame.loc[STEP, given.arm]
    share = 100.0 * spent / step
    primitives, alone = len(workload.recipe().table), frame.loc[PASS, given.arm]
    print(
        f"{workload.capture.name}, {config.engine.ranks} ranks, {primitives} primitives at the start: "
        f"scopes + hazards + cut {spent:.3f} ms CPU per step of {step:.1f} ms, {share:.2f} %; "
        f"the hazard pass alone {alone:.4f} ms, {100.0 * alone / step:.2f} %"
    )
    if given.csv:
        frame.to_csv(given.csv)
    return int(given.limit is not None and share > given.limit)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
