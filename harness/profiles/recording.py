"""What the ranks of a waiting arm did, without numbers, so that it can be timed again at other prices.

A recording holds for each rank its phases with their work, and where it joined and waited for collectives. The order of
these does not depend on the clock, so timing them again is exact (a test compares with a run).

Legend: W ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from harness.measure.profile import Price
from harness.run.execute import execute
from harness.run.virtual import run_threads
from harness.run.workload import Workload
from harness.store.files import replacing
from odin.arms import arm as arm_named
from odin.comm.link import UNSHAPED, Link
from odin.comm.transport import Arrival, Handle
from odin.comm.virtual import VirtualTransport
from odin.errors import InputError
from odin.keeper import Entry, NominalKeeper, Work
from odin.phases import Category, Phase

# op: phase, join or wait; name and category of a phase, segment of a wait; bytes of a join, else 0
COLUMNS: dict[str, str] = {
    "rank": "int16", "step": "int32", "op": "str", "name": "str", "category": "str", "rows": "int64",
    "entries": "int64", "fragments": "int64", "pixels": "int64", "bytes": "int64",
}  # fmt: skip
_DTYPE = torch.uint8  # of a stand-in for a collective's buffer, which has no storage
_META = torch.device("meta")


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


def retime(recording: pd.DataFrame, price: Price, link: Link, slowdown: float) -> list[list[Entry]]:
    """Timelines of all ranks at these prices on this link."""
    logs = [list(ops.itertuples(index=False)) for _, ops in recording.groupby("rank", sort=True)]

    def rank(transport: VirtualTransport) -> list[Entry]:
        keeper = NominalKeeper(price, transport.pace(slowdown))
        keeper.begin()
        _play(logs[transport.rank], transport, keeper)
        return keeper.entries

    return run_threads(len(logs), link, rank)


def _play(ops: Sequence[tuple], transport: VirtualTransport, keeper: NominalKeeper) -> None:
    under_way: list[Handle] = []
    for _, step, op, name, category, rows, entries, fragments, pixels, nbytes in ops:
        keeper.step = step
        if op == "join":
            under_way.append(transport.all_reduce(torch.empty(nbytes, dtype=_DTYPE, device=_META), keeper.join()))
        elif op == "wait":
            keeper.wait(under_way.pop(0), name)
        else:
            with keeper.counted_as(Category(category)), keeper.phase(Phase(name), rows=rows, pixels=pixels) as work:
                work.entries, work.fragments = entries, fragments


def exposed(timelines: Sequence[Sequence[Entry]]) -> tuple[float, float]:
    """Seconds of the whole run, and of it transfer that ranks waited for, mean over ranks (D§7)."""
    wall = max(entries[-1].end for entries in timelines)
    transfer = 0.0
    for entries in timelines:
        for e in entries:
            if e.kind == "wait":
                transfer += e.end - e.start - max(0.0, min(e.end, e.last_join) - e.start)
    return wall, transfer / len(timelines)
