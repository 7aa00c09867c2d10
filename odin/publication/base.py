"""What all publication policies share: launching segments, waiting for them, applying them.

The runtime calls a policy at fixed program points (odin/points.py). A point publishes a FIXED set of rows and waits
for it; nothing is published because it happens to have arrived, so every decision is a function of replicated state.

Legend: N rows, U views of a unit, B views of a step, steps A → B → C.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odin.arms import Arm, Dispatch
from odin.arriving import Scopes, taken
from odin.audit import Auditor, audited_steps
from odin.bitmap import row_ids
from odin.bound import adam_bound, selective_bound
from odin.budget import Budget
from odin.comm.transport import Transport
from odin.dispatch import Dispatcher
from odin.inflation import Inflation
from odin.keeper import Keeper
from odin.ledger import Ledger, Pending
from odin.memory import Holding, MemoryCategory
from odin.phases import Category, Phase
from odin.plan import Blocking, Plan
from odin.points import CLOSE, COLOURS, Point, colour, geometry, view_done
from odin.publication.knowledge import Knowledge
from odin.publication.window import Window, WindowState, rejection
from odin.recipe import Event, Frame, Recipe
from odin.segments import Part, SegmentSpec, two_buckets
from odin.slot import Segment, Slot

_MOVES = 8  # steps whose bounds on movement are worked out at once


class Publication(ABC):
    """Base of the policies. The runtime calls, in a step: `open`, `unit_of`, then for each view `before_projection`
    and `rows_for`, for each view `before_blend`, `colours_done` (last view), `view_done`, then `close` or `abandon`."""

    def __init__(
        self,
        recipe: Recipe[Any],
        plan: Plan,
        transport: Transport,
        keeper: Keeper,
        arm: Arm,
        *,
        budget: Budget | None = None,
    ) -> None:
        self.recipe, self.plan, self.transport, self.keeper, self.arm = recipe, plan, transport, keeper, arm
        self.budget = budget or Budget()
        audited = audited_steps(arm.audit, plan, self.drops_gradient)
        self.auditor = Auditor(audited, recipe, transport, keeper) if arm.audit else None
        self.dispatcher = self._make_dispatcher()
        self.fallback: Publication | None = None  # takes over after a failed audit, until a structural event
        self.home: Publication | None = None  # of a fallback: the policy it stands in for
        self.ledger = Ledger(make=recipe.table.make_slot)
        self.windows: list[Window] = []
        self.payload_bytes: dict[int, int] = {}
        self._specs: Sequence[SegmentSpec] = ()
        self._own_rows: list[NDArray[np.int32]] = []
        self._ahead: dict[int, Scopes] = {}  # step → scopes of its own views, asked for where the host runs ahead
        self._bounds: dict[tuple[int, int], tuple[float, float]] = {}  # (step, t) → `_moves`

    runs_ahead = False  # nothing is waited for inside a step, so a rank may be up to a step ahead of another

    def _make_dispatcher(self) -> Dispatcher | None:
        """Where ranks meet in every step anyway, every assignment of units to equal ranks takes equally long."""
        if self.arm.dispatch is Dispatch.STATIC or self.transport.ranks == 1 or not self.runs_ahead:
            return None
        return Dispatcher(self.plan, self.transport, self.keeper, self.arm.dispatch)

    # Program points -----------------------------------------------------------------------------------

    def restart(self, step: int) -> None:
        """At the start, and after a blocking window before `step`: everything is published, N may be new."""
        table = self.recipe.table
        if not self.ledger.fits(len(table)):
            with self.keeper.phase(Phase.SLOTS, rows=len(table)):
                self.ledger.resize(len(table), table.slot_layout)
        self._ahead, self._bounds = {}, {}
        if self.dispatcher is not None:
            self.dispatcher.reset()

    def unit_of(self, step: int) -> int:
        """The unit of the step that this rank computes."""
        return self.transport.rank if self.dispatcher is None else self.dispatcher.unit(step)

    def open(self, step: int) -> None:
        """Fix the partition of the step's slot before its first backward."""
        self._own_rows = []
        self._partition(step, self._two_buckets())
        if self.recipe.table.host_ahead:
            self._look_ahead(step)

    def rows_for(self, step: int, position: int) -> NDArray[np.int32]:
        """Rows to project for the view at `position` of this rank's unit, int32, ascending. Without scopes they
        are culled here, for all views of the unit in one call, from values that no view of it will see change; where
        the host runs ahead they were asked for a step ago."""
        if not self._own_rows:
            asked = self._ahead.pop(step, None)
            views = self.plan.units[step, self.unit_of(step)]
            self._own_rows = self._culled(views) if asked is None else self._rows_of(asked)
        return self._own_rows[position]

    def before_projection(self, step: int, position: int) -> None:
        """p1: publish the geometry that the view at `position` may read and no earlier one did."""
        self._publish(step - 1, geometry(position))

    def before_blend(self, step: int, position: int) -> None:
        """p1': publish the colours that the view at `position` may read and no earlier one did."""
        self._publish(step - 1, colour(position))

    def observe(self, step: int, position: int, frame: Frame) -> None:
        """The gradient of the view at `position` is in the slot; `frame` is what it was computed from."""
        if self.auditor is not None and self._audits(step):
            self.auditor.watch(frame)
        if self.dispatcher is not None and not self.drops_gradient(step):
            self.dispatcher.note(step, position, frame)

    def colours_done(self, step: int) -> None:
        """After the last view's colour backward; its projection backward is still to come."""
        self._launch(step, COLOURS)

    def view_done(self, step: int, position: int) -> None:
        """After the backward of a view that is not the unit's last."""
        self._launch(step, view_done(position))

    def close(self, step: int) -> None:
        """p0, after the step's last backward: send the step, publish its predecessor, open or close the window."""
        self._launch(step, CLOSE)
        self._finish(step - 1)
        failed = self._audits(step) and self._audit(step)
        if failed or self.blocked(step):
            self._finish_whole(step)
            reason = "audit" if failed else self._reason(step)
            self._account(replace(self._window(step), state=WindowState.REJECTED, reason=reason))
        else:
            self._open_window(step)
        self._closed(step)

    @abstractmethod
    def _open_window(self, step: int) -> None:
        """What the successor may find although the step is pending."""

    def _closed(self, step: int) -> None:  # noqa: B027 (a hook)
        """The step is over."""

    def following(self, step: int) -> Publication:
        """The policy of the next step: the fallback after a failed audit, the arm's own again after a structural
        event."""
        if self.home is not None and step + 1 < self.plan.steps and self.plan.blocking[step] & Blocking.STRUCTURAL:
            return self.home
        if self.auditor is not None and self.fallback is not None and self.auditor.failed_at(step):
            return self.fallback
        return self

    def abandon(self, step: int) -> None:
        """Instead of `close` on a densifying step: publish what is pending, exchange nothing, move no row."""
        self._finish(step - 1)
        self.ledger.require_flushed()
        self._closed(step)
        self._account(Window(step=step, state=WindowState.REJECTED, reason=self._reason(step)))

    def fall_back_to(self, policy: type[Publication]) -> None:
        """The policy that takes over after a failed audit; it shares the ledger and the accounts."""
        exact = replace(self.arm, audit=0)
        fallback = policy(self.recipe, self.plan, self.transport, self.keeper, exact, budget=self.budget)
        fallback.ledger, fallback.windows, fallback.payload_bytes = self.ledger, self.windows, self.payload_bytes
        fallback.home, self.fallback = self, fallback

    def knowledge(self) -> Knowledge:
        """What has been learnt so far; asked for at flushed state. Nothing in it changes afterwards."""
        own, evidence = self.home or self, self.recipe.table.evidence
        return Knowledge(
            evidence=None if evidence is None else evidence.copy(),
            costs=None if own.dispatcher is None else own.dispatcher.costs.copy(),
            fallen=self.home is not None,
        )

    def recall(self, knowledge: Knowledge) -> Publication:
        """Go on from what an earlier run of this arm had learnt; the policy that goes on. Before `restart`."""
        if knowledge.evidence is not None:
            self.recipe.table.keep_evidence()[:] = knowledge.evidence
        if knowledge.costs is not None and self.dispatcher is not None:
            self.dispatcher.costs[:] = knowledge.costs
        if not knowledge.fallen:
            return self
        assert self.fallback is not None, "an audit has failed in an arm without audits"
        return self.fallback

    def holdings(self) -> Iterator[Holding]:
        """What the policy keeps beside the table (`odin.memory`)."""
        yield from self.ledger.holdings()
        for rows in self._own_rows:
            yield MemoryCategory.ROW_LISTS, rows
        if self.fallback is not None:
            yield from self.fallback.holdings()

    # Shared pieces --------------------------------------------------------------------------------------

    def blocked(self, step: int) -> bool:
        """Whether the window after `step` is blocking, or there is no next step."""
        return step == self.plan.steps - 1 or bool(self.plan.blocking[step])

    def drops_gradient(self, step: int) -> bool:
        """Whether the step densifies: its gradient is thrown away, as upstream, and nothing is exchanged."""
        return Event.DENSIFY in self.recipe.events_after(step)

    def slot(self, step: int) -> Slot:
        """The slot that the step's gradient is accumulated in."""
        return self.ledger.slot(step)

    def _two_buckets(self) -> list[SegmentSpec]:
        table = self.recipe.table
        return two_buckets(table.every_row, table.visible_group, table.layout.every_group[1:])

    def _culled(self, views: Sequence[int] | NDArray[np.integer]) -> list[NDArray[np.int32]]:
        rows = len(self.recipe.table)
        with self.keeper.phase(Phase.CULL, rows=rows * len(views)):
            return self._rows_of(self.recipe.scope([int(v) for v in views], Inflation.none(rows)))

    def _rows_of(self, scopes: Scopes) -> list[NDArray[np.int32]]:
        return [row_ids(bits, len(self.recipe.table)) for bits in taken(scopes)]

    def _look_ahead(self, step: int) -> None:
        """Ask for the scopes of the own views of the step after `step`, whose values are still to change."""
        if step == self.plan.steps - 1 or self.plan.blocking[step]:
            return
        rows, (shift, growth) = len(self.recipe.table), self._outstanding(step)
        inflation = Inflation(level=np.zeros(rows, np.uint8), shift=np.array([shift]), growth=np.array([growth]))
        views = [int(v) for v in self.plan.units[step + 1, self.unit_of(step + 1)]]
        with self.keeper.phase(Phase.CULL, rows=rows * len(views)):
            self._ahead[step + 1] = self.recipe.scope(views, inflation)

    def _outstanding(self, step: int) -> tuple[float, float]:
        """How far values may still move between the opening of a step and its successor's reads."""
        return self._moves(step, self.recipe.table.t + 1)

    def _moves(self, step: int, t: int) -> tuple[float, float]:
        """Bounds on the movement of centres and log-scales in one update.

        Several steps are worked out at once: between rendering and culling, everything that one alone needs has left
        the caches, and it takes seven times as long.
        """
        if (step, t) not in self._bounds:
            bound = selective_bound if self.recipe.table.selective else adam_bound
            self._bounds = {key: moves for key, moves in self._bounds.items() if key[0] >= step - 1}
            for k in range(max(1, min(_MOVES, self.plan.steps - step))):
                self._bounds[step + k, t + k] = self.recipe.displacement(step + k, bound(t + k))
        return self._bounds[step, t]

    def _partition(self, step: int, specs: Sequence[SegmentSpec]) -> None:
        """Lay the step's slot out. Segments of its early launches are entered into the ledger at their points."""
        self._specs = specs
        with self.keeper.phase(Phase.CLEAR, rows=len(self.recipe.table)):
            self.ledger.slot(step).partition(specs)

    def _pending(self, step: int) -> Pending:
        """The step's entry in the ledger; at first use its update is bound to t and the learning rates of now."""
        pending = self.ledger.pending(step)
        if pending is None:
            table = self.recipe.table
            slot = self.ledger.slot(step)
            update = table.bind(step, self.recipe.learning_rates(step), 1.0 / self.plan.global_batch)
            pending = Pending(step=step, update=update, slot=slot)
            self.ledger.push(pending)
        return pending

    def _launch(self, step: int, point: Point) -> None:
        """Send the step's segments that leave at a point, in link order.

        An empty segment is not sent: backends complete it without waiting for the other ranks. Partitions are
        the same on all ranks, so all of them leave it out.
        """
        if self.drops_gradient(step) or self._audits(step):
            return
        if point == CLOSE or any(spec.launch == point for spec in self._specs):
            self._send(step, {point})

    def _send(self, step: int, points: Collection[Point]) -> None:
        pending = self._pending(step)
        for segment in pending.slot.segments:
            if segment.spec.launch in points and segment.stop > segment.start:
                handle = self.transport.all_reduce(pending.slot.slice(segment), self.keeper.join())
                pending.launched(segment, handle)
                self.payload_bytes[step] = self.payload_bytes.get(step, 0) + handle.nbytes
        if self.dispatcher is not None and CLOSE in points:
            self.dispatcher.send(step)

    def _publish(self, step: int, point: Point) -> None:
        """Wait for and apply what of `step` is due at a point; nothing if the step is not pending."""
        pending = self.ledger.pending(step)
        if pending is None:
            return
        due = pending.due.pop(point, [])
        if due:
            last = max((segment for segment, _ in due), key=lambda s: s.start)
            self._wait_through(pending, last)
            self._apply(pending, [part for _, part in due])

    def _wait_through(self, pending: Pending, last: Segment | None) -> None:
        """Wait for segments in link order up to `last`, or for all."""
        while pending.under_way and (last is None or pending.under_way[0][0].start <= last.start):
            segment, handle = pending.under_way.popleft()
            self.keeper.wait(handle, segment.name)

    def _apply(self, pending: Pending, parts: Sequence[Part]) -> None:
        """Update parts, in one pass for all of the same columns."""
        for lo, hi, corrects in sorted({(part.lo, part.hi, part.corrects) for part in parts}):
            ids = np.concatenate([p.rows for p in parts if (p.lo, p.hi, p.corrects) == (lo, hi, corrects)])
            if corrects:
                self._correct(pending, ids)
            else:
                self._update(pending, ids, lo, hi)

    def _finish(self, step: int) -> None:
        """p0: wait for and apply everything that is left of a step; nothing if it is not pending."""
        pending = self.ledger.pending(step)
        if pending is None:
            return
        self._wait_through(pending, None)
        self._apply(pending, [part for parts in pending.due.values() for _, part in parts])
        pending.due.clear()
        self._published(pending)

    def _finish_whole(self, step: int) -> None:
        """Wait for every segment of a step, then apply its gradient in one pass over all rows."""
        pending = self._pending(step)
        self._wait_through(pending, None)
        pending.due.clear()
        table = self.recipe.table
        self._update(pending, table.every_row, 0, len(table.layout.groups))
        self._published(pending)

    def _published(self, pending: Pending) -> None:
        if self.dispatcher is not None:
            self.dispatcher.learn(pending.step)
        self.ledger.done(pending)
        self.recipe.table.published(pending.update)
        self.recipe.published(pending.step)

    def _audits(self, step: int) -> bool:
        """Whether the step is audited: nothing of it leaves before the audit has seen its own gradient."""
        return self.auditor is not None and step in self.auditor.steps and not self.blocked(step - 1)

    def _audit(self, step: int) -> bool:
        """Compare the step's gradient with one from published values, then send it; whether the error is too large."""
        assert self.auditor is not None
        views = self.plan.units[step, self.unit_of(step)]
        slot, free = self._pending(step).slot, self.ledger.slot(step + 1)
        with self.keeper.counted_as(Category.ODIN):
            rows = self._culled(views)
            with self.keeper.phase(Phase.CLEAR, rows=len(self.recipe.table)):
                free.partition(self._specs)
        record = self.auditor.run(step, [int(v) for v in views], rows, slot, free)
        self._send(step, {CLOSE, *(spec.launch for spec in self._specs)})
        return record.failed

    def _window(self, step: int) -> Window:
        """Account of a window that waited for everything."""
        rows = len(self.recipe.table)
        return Window(step=step, state=WindowState.REJECTED, waited_rows=rows, write_rows=rows, rows=rows)

    def _update(self, pending: Pending, ids: NDArray[np.int32], lo: int, hi: int) -> None:
        layout = self.recipe.table.layout
        columns = int(layout.bounds[hi] - layout.bounds[lo])
        with self.keeper.phase(Phase.UPDATE, rows=len(ids)) as work:
            work.entries = len(ids) * columns
            self.recipe.table.apply_gradient(pending.update, ids, lo, hi, pending.slot)

    def _correct(self, pending: Pending, ids: NDArray[np.int32]) -> None:
        with self.keeper.phase(Phase.CORRECT, rows=len(ids)):
            self.recipe.table.apply_correction(pending.update, ids, pending.slot)

    def _account(self, window: Window) -> None:
        if window.step < self.plan.steps - 1:
            self.windows.append(window)

    def _reason(self, step: int) -> str:
        return rejection(self.plan, step)
