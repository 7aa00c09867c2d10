"""What the ranks of a waiting arm did, without numbers, so that it can be timed again at other prices.

A recording holds for each rank its phases with their work, and where it joined and waited for collectives. The order of
these does not depend on the clock, so timing them again is exact (a test compares with a run).

Legend: W ranks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from harness.measure.profile import Price
from harness.run.execute import execute
from harness.run.together import run_threads
from harness.run.workload import Workload
from harness.store.files import replacing
from odin.arms import arm as arm_named
from odin.comm.link import UNSHAPED, Link
from odin.comm.transport import Arrival, Handle
from odin.comm.virtual import VirtualTransport, stretch_over
from odin.errors import InputError
from odin.keeper import NominalKeeper, Work
from odin.phases import Phase

# op: phase, join or wait; name and category of a phase, segment of a wait; bytes of a join, else 0
COLUMNS: dict[str, str] = {
    "rank": "int16", "step": "int32", "op": "str", "name": "str", "category": "str", "rows": "int64",
    "entries": "int64", "fragments": "int64", "pixels": "int64", "bytes": "int64",
}  # fmt: skip


class RecordingKeeper(NominalKeeper):
    """Keeps `ops` beside a timeline on which nothing takes time. For arms that wait in the order in which they join."""

    def __init__(self) -> None:
        super().__init__(lambda name, work: 0.0)
        self.ops: list[list[object]] = []
        self._joined: list[int] = []  # places in `ops` of joins that were not waited for

    def _close(self, phase: Phase, work: Work, start: float, end: float, cpu: float) -> None:
        super()._close(phase, work, start, end, cpu)
        done = self.entries[-1]
        amounts = (work.rows, work.entries, work.fragments, work.pixels)
        self.ops.append([self.step, "phase", done.name, done.category, *amounts, 0])

    def join(self) -> float:
        """See NominalKeeper."""
        self._joined.append(len(self.ops))
        self.ops.append([self.step, "join", "", "", 0, 0, 0, 0, 0])
        return super().join()

    def wait(self, handle: Handle, name: str) -> Arrival:
        """See NominalKeeper."""
        self.ops[self._joined.pop(0)][-1] = handle.nbytes
        self.ops.append([self.step, "wait", name, "", 0, 0, 0, 0, 0])
        return super().wait(handle, name)


def record_run(workload: Workload, arm: str) -> pd.DataFrame:
    """Run an arm that waits for everything on the virtual engine and keep what its ranks did (see COLUMNS)."""
    plan = workload.plan(arm_named(arm))

    def rank(transport: VirtualTransport) -> list[list[object]]:
        keeper = RecordingKeeper()
        execute(workload, arm_named(arm), transport, keeper, plan=plan)
        return [[transport.rank, *op] for op in keeper.ops]

    rows = [op for ops in run_threads(workload.config.engine.ranks, UNSHAPED, rank) for op in ops]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def save(recording: pd.DataFrame, path: Path) -> None:
    """Parquet, whole or not at all."""
    with replacing(path) as temporary:
        table = pa.Table.from_pandas(recording, preserve_index=False)
        pq.write_table(table, temporary, compression="zstd")


def load(path: Path) -> pd.DataFrame:
    """A recording written by `save`. Raises InputError."""
    try:
        frame = pq.read_table(path).to_pandas()
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"The recording {path} cannot be read: {error}. Restore it from the repository.") from error
    if list(frame.columns) != list(COLUMNS):
        raise InputError(f"{path} is no recording: its columns are {', '.join(frame.columns)}.")
    return frame.astype(COLUMNS)


def exposed(recording: pd.DataFrame, price: Price, link: Link, slowdown: float) -> tuple[float, float]:
    """Seconds of the whole run at these prices on this link, and of it transfer that ranks waited for (mean; D§7).

    Collectives are fixed in order: when the k-th begins follows from those before it, because a rank waits for no later
    one before it joins the k-th. That is the virtual engine's clock (`odin.comm.virtual`) without its threads.
    """
    ranks = [_Rank(ops.itertuples(index=False, name=None), price, slowdown) for _, ops in recording.groupby("rank")]
    link_log = _LinkLog()
    while True:
        nbytes = [rank.advance(link_log) for rank in ranks]
        if None in nbytes:
            return max(rank.now for rank in ranks), sum(rank.transfer for rank in ranks) / len(ranks)
        joined = max(rank.now for rank in ranks)
        link_log.add(joined, link.all_reduce_seconds(int(nbytes[0] or 0), len(ranks)))


class _LinkLog:
    """Transfers so far. last_joins: of each; busy: start and finish of each, ascending."""

    def __init__(self) -> None:
        self.last_joins: list[float] = []
        self.busy: list[tuple[float, float]] = []

    def add(self, last_join: float, seconds: float) -> None:
        start = max(last_join, self.busy[-1][1] if self.busy else 0.0)
        self.last_joins.append(last_join)
        self.busy.append((start, start + seconds))


class _Rank:
    """One rank on its way through a recording."""

    def __init__(self, ops: Iterator[tuple], price: Price, slowdown: float) -> None:
        self._ops, self._price, self._slowdown = ops, price, slowdown
        self.now = self.transfer = 0.0
        self._waited = 0

    def advance(self, link: _LinkLog) -> int | None:
        """Go on to the next join and return its bytes; None at the end."""
        for _, _, op, name, _, rows, entries, fragments, pixels, nbytes in self._ops:
            if op == "join":
                return int(nbytes)
            if op == "wait":
                self._wait(link)
                continue
            work = Work(rows=rows, entries=entries, fragments=fragments, pixels=pixels)
            first = bisect_right(link.busy, self.now, key=lambda transfer: transfer[1])
            self.now = stretch_over(link.busy, first, self.now, self._price(name, work), self._slowdown)
        return None

    def _wait(self, link: _LinkLog) -> None:
        until = max(self.now, link.busy[self._waited][1])
        skew = max(0.0, min(until, link.last_joins[self._waited]) - self.now)
        self.transfer += until - self.now - skew
        self.now, self._waited = until, self._waited + 1
