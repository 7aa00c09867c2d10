"""What all publication policies share: launching segments, waiting for them, applying them.

The runtime calls a policy at fixed program points. A point publishes a FIXED set of rows and waits for it;
nothing is published because it happens to have arrived, so every decision is a function of replicated state.

Legend: N rows, B views of a step, steps A → B → C.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odin.comm.transport import Handle, Transport
from odin.inflation import Inflation
from odin.keeper import Keeper
from odin.ledger import Ledger, Pending
from odin.memory import Holding, MemoryCategory
from odin.phases import Phase
from odin.plan import Blocking, Plan
from odin.recipe import Event, Recipe
from odin.rows import Rows, Update, apply_gradient
from odin.slot import Segment, SegmentSpec


class WindowState(Enum):
    """What became of the edge between two consecutive steps (D§3)."""

    CLEAR = "clear"  # no conflict
    PARTIAL = "partial"  # the successor began before all of the predecessor had arrived
    REJECTED = "rejected"  # blocking, or the waited rows are ≥ 95 % of the transfer


@dataclass(frozen=True, kw_only=True)
class Window:
    """Account of the window after `step`: rows that were waited for, rows of W⁺, all rows; why, if rejected."""

    step: int
    state: WindowState
    reason: str
    waited_rows: int
    write_rows: int
    rows: int


class Publication(ABC):
    """Base of the policies. `open`, `rows_for`, `before_projection`, `colours_done`, `close`, `abandon` and
    `restart` are called by the runtime in that order of a step; see each policy for what it does there."""

    def __init__(self, recipe: Recipe[Any], plan: Plan, transport: Transport, keeper: Keeper) -> None:
        self.recipe, self.plan, self.transport, self.keeper = recipe, plan, transport, keeper
        self.ledger = Ledger()
        self.windows: list[Window] = []
        self.payload_bytes: dict[int, int] = {}
        self._own_rows: list[NDArray[np.int32]] = []

    # Program points -----------------------------------------------------------------------------------

    def restart(self, step: int) -> None:
        """At the start, and after a blocking window before `step`: everything is published, N may be new."""
        table = self.recipe.table
        if not self.ledger.fits(len(table)):
            with self.keeper.phase(Phase.STRUCTURE, rows=len(table)):
                self.ledger.resize(len(table), table.layout)

    def open(self, step: int) -> None:
        """Fix the partition of the step's slot before its first backward."""
        self._partition(step, self._two_buckets())

    def rows_for(self, step: int, position: int) -> NDArray[np.int32]:
        """Rows to project for the view at `position` of this rank's unit, int32, ascending. Without scopes they
        are culled here, for all views of the unit in one call, from values that no view of it will see change."""
        if position == 0:
            views = [int(v) for v in self.plan.units[step, self.transport.rank]]
            rows = len(self.recipe.table)
            with self.keeper.phase(Phase.CULL, rows=rows * len(views)):
                masks = self.recipe.scope(views, Inflation.none(rows))
                self._own_rows = [np.flatnonzero(mask).astype(np.int32) for mask in masks]
        return self._own_rows[position]

    def before_projection(self, step: int, position: int) -> None:  # noqa: B027 (a hook)
        """p1: publish what the view at `position` may read and no earlier one did."""

    def colours_done(self, step: int) -> None:  # noqa: B027 (a hook)
        """After the last view's colour backward; its projection backward is still to come."""

    @abstractmethod
    def close(self, step: int) -> None:
        """p0, after the step's last backward."""

    @abstractmethod
    def abandon(self, step: int) -> None:
        """Instead of `close` on a densifying step: publish what is pending, exchange nothing, move no row."""

    def holdings(self) -> Iterator[Holding]:
        """What the policy keeps beside the table (`odin.memory`)."""
        yield from self.ledger.holdings()
        for rows in self._own_rows:
            yield MemoryCategory.ROW_LISTS, rows

    # Shared pieces --------------------------------------------------------------------------------------

    def blocked(self, step: int) -> bool:
        """Whether the window after `step` is blocking, or there is no next step."""
        return step == self.plan.steps - 1 or bool(self.plan.blocking[step])

    def drops_gradient(self, step: int) -> bool:
        """Whether the step densifies: its gradient is thrown away, as upstream, and nothing is exchanged."""
        return Event.DENSIFY in self.recipe.events_after(step)

    def _two_buckets(self) -> list[SegmentSpec]:
        """All colours, then all geometry: what DDP's buckets would send while backward still runs."""
        rows = self.recipe.table.every_row
        return [
            SegmentSpec(name="colours", rows=rows, groups=(1,)),
            SegmentSpec(name="geometry", rows=rows, groups=(0,)),
        ]

    def _partition(self, step: int, specs: list[SegmentSpec]) -> None:
        with self.keeper.phase(Phase.CLEAR, rows=len(self.recipe.table)):
            self.ledger.slot(step).partition(specs)

    def _begin_pending(self, step: int) -> Pending:
        """Bind the step's update (its t and learning rates) and enter it into the ledger."""
        table = self.recipe.table
        table.t += 1
        lr = self.recipe.learning_rates(step)
        update = Update(t=table.t, lr=lr, scale=1.0 / self.plan.global_batch)
        pending = Pending(step=step, update=update, slot=self.ledger.slot(step))
        self.ledger.push(pending)
        return pending

    def _launch(self, pending: Pending, segment: Segment, rows: NDArray[np.int32]) -> None:
        """Send one segment; `rows` are those it will publish (rows with a zero gradient need not be).

        An empty segment is not sent: backends complete it without waiting for the other ranks. Partitions are
        the same on all ranks, so all of them leave it out.
        """
        if segment.start == segment.stop:
            return
        handle = self.transport.all_reduce(pending.slot.slice(segment), self.keeper.join())
        pending.launched.append((segment, handle, rows))
        sent = self.payload_bytes.get(pending.step, 0)
        self.payload_bytes[pending.step] = sent + handle.nbytes

    def _launch_buckets(self, pending: Pending) -> None:
        """Launch what is left of the two-bucket layout."""
        for segment in pending.slot.segments[len(pending.launched) :]:
            self._launch(pending, segment, self.recipe.table.every_row)

    def _publish_next(self, pending: Pending) -> None:
        """Wait for the next segment and apply it."""
        segment, handle, rows = pending.launched.popleft()
        self.keeper.wait(handle, segment.name)
        self._update(pending, rows)

    def _publish_all_rows(self, pending: Pending) -> None:
        """Wait for every segment, then apply the whole gradient in one pass over all rows."""
        self._wait_all(pending.launched)
        self._update(pending, self.recipe.table.every_row)
        self.ledger.done(pending)

    def _wait_all(self, launched: deque[tuple[Segment, Handle, NDArray[np.int32]]]) -> None:
        while launched:
            segment, handle, _ = launched.popleft()
            self.keeper.wait(handle, segment.name)

    def _update(self, pending: Pending, ids: NDArray[np.int32]) -> None:
        with self.keeper.phase(Phase.UPDATE, rows=len(ids)):
            rows = self._rows(ids)
            slot = pending.slot
            apply_gradient(self.recipe.table.moments, pending.update, rows, slot.values, slot.offsets)

    def _rows(self, ids: NDArray[np.int32]) -> Rows:
        layout = self.recipe.table.layout
        return Rows(ids=ids, layout=layout, lo=0, hi=len(layout.groups))

    def _account(self, step: int, state: WindowState, waited: int, written: int) -> None:
        if step < self.plan.steps - 1:
            rows = len(self.recipe.table)
            reason = self._reason(step) if state is WindowState.REJECTED else ""
            window = Window(
                step=step, state=state, reason=reason, waited_rows=waited, write_rows=written, rows=rows
            )
            self.windows.append(window)

    def _reason(self, step: int) -> str:
        flags = Blocking(int(self.plan.blocking[step]))
        return str(flags.name).lower() if flags else "everything is waited for"
