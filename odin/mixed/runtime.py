"""The training loop of mixed parallelism (D§6): observe, render, publish, under one of four kinds of waiting.

Two kinds of transfer: `observe` (sizes, projected rows) and `publish` (gradients back, then the owner's projection
backward and update). Their order on the link is fixed by the arm, for steps A → B:

    barrier     sizes(A) observe(A) publish(A) | sizes(B) observe(B) publish(B)
    quality     sizes(B) observe-clear(B) publish(A) | observe-conflict(B)
    predicted   sizes(B) observe(B) publish(A)

Legend: n rows of this owner's shard, B views of a step in unit order, T tasks of a step (`odin.mixed.bands`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from odin.arms import MIXED, Arm, Waits
from odin.arriving import Scalar, taken
from odin.audit import audited_steps
from odin.bitmap import row_ids
from odin.bound import adam_bound
from odin.comm.transport import ExchangeTransport
from odin.device.upload import as_index, to_device
from odin.errors import InputError
from odin.inflation import Inflation
from odin.keeper import Keeper
from odin.losses import LossLog, StepRecord
from odin.memory import Holding, Memory, measure
from odin.mixed.audit import ShardAuditor, pixel_change
from odin.mixed.balance import Balancer
from odin.mixed.bands import Band
from odin.mixed.flight import Flight
from odin.mixed.owners import Owners
from odin.mixed.recipe import MixedRecipe, Observed
from odin.mixed.traffic import Outbox, Pick, Traffic, picked, with_ids
from odin.phases import Category, Phase
from odin.plan import Plan
from odin.publication.window import Window, WindowState, rejection
from odin.recipe import Event
from odin.runtime import OnStep
from odin.segments import two_buckets
from odin.slot import Slot

MEASURE_EVERY = 8  # steps between measurements of memory
Ids = NDArray[np.int32]


class MixedRuntime(ABC):
    """Trains one owner's shard along a plan. `version` counts structural events so far; `fallen`: an audit has failed,
    and reads are waited for until the next one.

    payload_bytes: sent by this rank for each step, observed rows and gradients
    peak: most that this owner held behind a render, where a step has all its values and perhaps those of another
    """

    def __init__(
        self,
        recipe: MixedRecipe[Any],
        plan: Plan,
        arm: Arm,
        transport: ExchangeTransport,
        keeper: Keeper,
        *,
        version: int = 0,
        fallen: bool = False,
    ) -> None:
        self.recipe, self.plan, self.arm, self.transport, self.keeper = recipe, plan, arm, transport, keeper
        self.device = recipe.device
        self.version, self.fallen = version, fallen
        self._current: Flight | None = None  # the step that is rendered
        self._pending: Flight | None = None  # the step before, on its way back
        self._following: Flight | None = None  # the step after, in part
        self.owners = Owners(transport, keeper, self.device)
        audited = audited_steps(arm.audit, plan, self._drops)
        self.auditor = ShardAuditor(audited, recipe.kinds, transport, keeper)
        self.balancer = Balancer(recipe.balance, recipe.tile_rows, plan, transport.rank)
        self.records: list[StepRecord] = []
        self.windows: list[Window] = []
        self.payload_bytes: dict[int, int] = {}
        self.peak = Memory()
        self._slot: Slot | None = None
        self._losses = LossLog(plan, 0)

    # The loop ---------------------------------------------------------------------------------------------------

    def run(self, start: int = 0, on_step: OnStep | None = None) -> None:
        """Train steps start…plan.steps-1. Everything is published when it returns, and at every blocking window."""
        self.keeper.step, self._losses = start, LossLog(self.plan, start)
        moment = self.keeper.begin()
        for step in range(start, self.plan.steps):
            self.keeper.step = step
            events = self.recipe.events_after(step)
            self._current = self._opened(step)
            losses = self._render(self._current)
            # Such that the mean over ranks is the mean over views.
            self._losses.add(losses, len(losses) / self.plan.views_per_unit)
            loss = self._losses.latest()
            self._close(self._current)
            self._current = None
            if events:
                self.version += 1
                self.recipe.restructure_shard(step, events, self.version, self.owners, self.keeper)
                self.fallen = False
            begun, moment = moment, self.keeper.now()
            if events:
                self.keeper.resolve()
            structural = bool(events)
            record = StepRecord(step=step, start=begun, end=moment, structural=structural, loss=loss)
            self.records.append(record)
            if on_step is not None:
                on_step(record)
        self.keeper.resolve()
        self.records = self._losses.completed(self.records, self.keeper.moments)

    @abstractmethod
    def _opened(self, step: int) -> Flight:
        """The step with all that its own views are rendered from."""

    @abstractmethod
    def _close(self, flight: Flight) -> None:
        """The step's own views are rendered; in a blocked window everything is published here."""

    def blocked(self, step: int) -> bool:
        """Whether the window after `step` is blocking, or there is no next step."""
        return step == self.plan.steps - 1 or bool(self.plan.blocking[step])

    # Observing --------------------------------------------------------------------------------------------------

    def _culled(self, step: int, inflation: Inflation | None = None) -> list[Ids]:
        """Rows of the shard that each view of a step may read, ids ascending."""
        rows, views = len(self.recipe.table), [int(v) for v in self.plan.views(step)]
        with self.keeper.phase(Phase.CULL, rows=rows * len(views)):
            asked = self.recipe.scope(views, inflation or Inflation.none(rows))
            if not self.recipe.table.host_ahead:  # else the device idles, which is no culling
                return [row_ids(one, rows) for one in taken(asked)]
        return [row_ids(one, rows) for one in taken(asked)]

    def _observe(
        self, step: int, rows: Sequence[Ids], values: Sequence[torch.Tensor] | None = None, *, drawn_only: bool = True
    ) -> list[Observed]:
        """Project the shard's rows for every view of a step. values: of each view's rows, in place of the table's."""
        return self.recipe.observe(self.plan.views(step).tolist(), rows, values, self.keeper, drawn_only=drawn_only)

    def _begun(self, step: int) -> Flight:
        """A step of which only is known who renders what."""
        if not self.balancer.cuts:
            return Flight(step=step, division=self.balancer.division(step))
        with self.keeper.phase(Phase.DISPATCH):
            return Flight(step=step, division=self.balancer.division(step))

    def _announce(self, flight: Flight, held_back: Sequence[int] | None = None) -> None:
        """Launch the step's sizes: rows of each part and task, as this owner has them. held_back: rows of each view
        that follow in a second part."""
        tasks, observed = flight.division.tasks, flight.observed[0]
        flight.picks.append([self._pick(observed[task.view], task.band) for task in tasks])
        counts = [[picked(observed[task.view], pick) for task, pick in zip(tasks, flight.picks[0], strict=True)]]
        if held_back is not None:
            # Which bands they touch is known when they are projected: every band of the view gets them.
            flight.picks.append([None] * len(tasks))
            counts.append([held_back[task.view] for task in tasks])
        told = [np.array(counts, np.int64).reshape(-1)]
        if not flight.audit:
            told.append(self.balancer.message(flight.step))
        part = to_device(np.concatenate(told), self.device, torch.int64)
        flight.announced = torch.empty((self.transport.ranks, *part.shape), dtype=torch.int64, device=self.device)
        flight.sizes = self.transport.all_gather(part, flight.announced, self.keeper.join())

    def _pick(self, observed: Observed, band: Band | None) -> Pick:
        if band is None:
            return None
        with self.keeper.phase(Phase.CLEAR, rows=len(observed.rows)):
            return self.recipe.needed(observed, band)

    def _learn_sizes(self, flight: Flight) -> None:
        assert flight.sizes is not None and flight.announced is not None
        self.keeper.wait(flight.sizes, flight.named("sizes"))
        ranks, parts, tasks = self.transport.ranks, len(flight.picks), len(flight.division.tasks)
        announced = flight.announced.cpu().numpy()
        self.transport.check()
        sizes, costs = np.split(announced, [parts * tasks], axis=1)
        counts = np.ascontiguousarray(sizes.reshape(ranks, parts, tasks).transpose(1, 0, 2))
        flight.learn(Traffic(counts=counts, starts=flight.division.starts), self.transport.rank)
        self.balancer.learn(flight.step, costs)

    def _send(self, flight: Flight, name: str) -> None:
        """Launch the part of the step that was observed last."""
        part = len(flight.observed) - 1
        sizes, columns = flight.traffic.sizes(part), self.recipe.projected_columns
        observed, picks = flight.observed[part], flight.picks[part]
        pieces = [(observed[task.view], pick) for task, pick in zip(flight.division.tasks, picks, strict=True)]
        with self.keeper.phase(Phase.CLEAR, rows=sum(picked(*piece) for piece in pieces)):
            send = with_ids(pieces, self.recipe.ids, columns, self.device)
            received = self._buffer(int(sizes[:, self.transport.rank].sum()), columns + 1)
        handle = self.transport.all_to_all(send, received, sizes, self.keeper.join())
        flight.inbox.parts.append(received)
        flight.under_way.append((flight.named(name), handle))
        self._count(flight, handle.nbytes)

    def _buffer(self, rows: int, columns: int) -> torch.Tensor:
        return torch.empty(rows, columns, device=self.device)

    def _await_observed(self, flight: Flight) -> None:
        for name, handle in flight.under_way:
            self.keeper.wait(handle, name)
        flight.under_way.clear()

    def _observed_at_once(self, step: int) -> Flight:
        """All of a step in one part, from values that are published, waited for."""
        flight = self._begun(step)
        flight.observed.append(self._observe(step, self._culled(step)))
        self._announce(flight)
        self._learn_sizes(flight)
        self._send(flight, "observe")
        return flight

    # Rendering --------------------------------------------------------------------------------------------------

    def _render(self, flight: Flight) -> list[Scalar]:
        """Render this rank's tasks; their losses. The gradients of what it received are ready to return."""
        self._await_observed(flight)
        losses, inbox, views = [], flight.inbox, self.plan.views(flight.step)
        flight.returning = self._buffer(inbox.returning, self.recipe.gradient_columns)
        for number, task in enumerate(flight.division.own(self.transport.rank)):
            # A device's keeper takes each look at the clock for the end of a step; nothing is cut there.
            begun = self.keeper.now() if self.balancer.cuts else 0.0
            with self.keeper.phase(Phase.CLEAR) as work:
                projected, places = self._received(flight, number)
                work.rows = len(places)
            drawn = self.recipe.draw(int(views[task.view]), projected, self.keeper, task.band)
            flight.returning[places] = drawn.gradient
            losses.append(drawn.loss)
            if flight.audit or self._audits(flight.step):
                flight.images.append(drawn.image)
            if self.balancer.cuts and not flight.audit:
                nanoseconds = int(1e9 * (self.keeper.now() - begun))
                self.balancer.note(flight.step, task, nanoseconds if drawn.costs is None else drawn.costs)
        # Not in every step: measuring takes time too.
        if flight.step % MEASURE_EVERY == 1 and not flight.audit:
            self.peak = max(self.peak, measure([self]), key=lambda memory: memory.total)
        inbox.parts.clear()
        return losses

    def _received(self, flight: Flight, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Projected rows of an own task, and where in what returns the gradient of each belongs, as an index."""
        if self.recipe.table.host_ahead:
            return flight.inbox.task_on(number, self.device)
        projected, places = flight.inbox.task(number)
        return projected, torch.from_numpy(places)

    def holdings(self) -> Iterator[Holding]:
        """What this owner keeps (`odin.memory`)."""
        yield from self.recipe.table.holdings()
        if self._slot is not None:
            yield from self._slot.holdings()
        for flight in self._flights():
            yield from flight.holdings()

    def _flights(self) -> Sequence[Flight]:
        """Steps that are not published."""
        return [flight for flight in (self._current, self._pending, self._following) if flight is not None]

    # Publishing -------------------------------------------------------------------------------------------------

    def _return(self, flight: Flight) -> None:
        """Launch the gradients on their way back, unless they are."""
        if flight.published is not None:
            return
        assert flight.returning is not None
        sizes = flight.traffic.returning()
        rows = int(sizes[:, self.transport.rank].sum())
        flight.gradient = self._buffer(rows, self.recipe.gradient_columns)
        flight.published = self.transport.all_to_all(flight.returning, flight.gradient, sizes, self.keeper.join())
        self._count(flight, flight.published.nbytes)

    def _publish(self, flight: Flight) -> None:
        """Wait for the step's gradients, go back to the shard's rows and update them."""
        if flight.slot is None:
            self._slot = self._gather(flight, self._slot)
        if not self._drops(flight.step):
            assert flight.slot is not None
            self._update(flight, flight.slot)
        flight.slot = None

    def _drops(self, step: int) -> bool:
        """The step densifies: its gradient is dropped, as upstream."""
        return Event.DENSIFY in self.recipe.events_after(step)

    def _gather(self, flight: Flight, slot: Slot | None) -> Slot:
        """Wait for the step's gradients and go back to the shard's rows, into `slot` or a new one."""
        assert flight.published is not None
        self.keeper.wait(flight.published, flight.named("publish"))
        flight.returning = None
        flight.slot = slot = self._cleared(slot)
        outbox = Outbox(flight.traffic, self.transport.rank)
        self._backward(
            [
                (observed[position], self._returned(flight, outbox, part, position))
                for position in range(self.plan.global_batch)
                for part, observed in enumerate(flight.observed)
            ],
            flight,
        )
        flight.observed.clear()
        flight.picks.clear()
        flight.gradient = None
        return slot

    def _returned(self, flight: Flight, outbox: Outbox, part: int, position: int) -> torch.Tensor:
        """Gradient of a part of a view's rows, float32 [m, G]: the sum over its tasks in their order."""
        assert flight.gradient is not None
        tasks, picks = flight.division.of_view(position), flight.picks[part]
        if len(tasks) == 1:
            return flight.gradient[outbox.slice(part, tasks[0])]
        rows = len(flight.observed[part][position].rows)
        with self.keeper.phase(Phase.CLEAR, rows=rows * len(tasks)):
            total = torch.zeros(rows, self.recipe.gradient_columns, device=self.device)
            for task in tasks:
                pick = picks[task]
                place = slice(None) if pick is None else as_index(pick, self.device)
                total[place] += flight.gradient[outbox.slice(part, task)]
        return total

    def _backward(self, returned: Sequence[tuple[Observed, torch.Tensor]], flight: Flight) -> None:
        """From the gradients of all views' rows to the shard's, views in their order; one phase for all, as observing
        them is."""
        for observed, gradient in returned if not flight.audit else ():
            self.recipe.note(observed, gradient)
        some = [(observed, gradient) for observed, gradient in returned if len(observed.rows)]
        if self._drops(flight.step) or not some:
            return
        slot, total = flight.slot, sum(len(observed.rows) for observed, _ in some)
        assert slot is not None
        with self.keeper.phase(Phase.COLOUR_BACKWARD, rows=total):
            placed = [self.recipe.placed(observed.rows) for observed, _ in some]
            for rows, (observed, gradient) in zip(placed, some, strict=True):
                slot.add_colours(rows, self.recipe.return_colours(observed, gradient))
        with self.keeper.phase(Phase.PROJECTION_BACKWARD, rows=total):
            for rows, (observed, gradient) in zip(placed, some, strict=True):
                slot.add(0, rows, self.recipe.return_geometry(observed, gradient))

    def _update(self, flight: Flight, slot: Slot) -> None:
        table = self.recipe.table
        ids = table.every_row if flight.moved is None else flight.moved
        with self.keeper.phase(Phase.UPDATE, rows=len(ids)) as work:
            work.entries = len(ids) * table.layout.columns
            table.apply_gradient(self._bound(flight), ids, 0, len(table.layout.groups), slot)
        table.published(self._bound(flight))

    def _bound(self, flight: Flight) -> Any:
        """The step's update; at first use bound to the counter and learning rates of now."""
        if flight.update is None:
            rates = self.recipe.learning_rates(flight.step)
            flight.update = self.recipe.table.bind(flight.step, rates, 1.0 / self.plan.global_batch)
        return flight.update

    def _cleared(self, slot: Slot | None) -> Slot:
        table = self.recipe.table
        with self.keeper.phase(Phase.CLEAR, rows=len(table)):
            if slot is None or slot.row_count != len(table):
                slot = table.make_slot(len(table), table.slot_layout)
            slot.partition(two_buckets(table.every_row))
        return slot

    # Auditing ---------------------------------------------------------------------------------------------------

    def _audits(self, step: int) -> bool:
        """Whether the step is audited: it may have read something late, and its gradient is not dropped."""
        return step in self.auditor.steps and not self.fallen

    def _recompute(self, flight: Flight) -> None:
        """Observe, render and return an audited step once more; everything before it is published."""
        with self.keeper.counted_as(Category.ODIN):
            again = Flight(step=flight.step, division=flight.division, audit=True)
            again.observed.append(self._observe(again.step, self._culled(again.step)))
            self._announce(again)
            self._learn_sizes(again)
            self._send(again, "observe")
            self._render(again)
            self._return(again)
            self._gather(again, None)
        flight.again = again

    def _failed(self, flight: Flight) -> bool:
        """Whether the audit of a step, if there is one, finds too large an error. Its gradients are on their way."""
        again = flight.again
        if again is None:
            return False
        self._slot = self._gather(flight, self._slot)
        assert flight.slot is not None and again.slot is not None
        change = pixel_change(flight.images, again.images)
        record = self.auditor.compare(flight.step, flight.slot, again.slot, change)
        flight.again = None
        flight.images.clear()
        return record.failed

    # Accounts ---------------------------------------------------------------------------------------------------

    def _one_update(self, step: int) -> tuple[float, float]:
        """How far the step's update may move a centre and grow a log-scale."""
        table = self.recipe.table
        return self.recipe.displacement(step, adam_bound(table.t, table.adam.beta1, table.adam.beta2))

    def _count(self, flight: Flight, nbytes: int) -> None:
        if not flight.audit:
            self.payload_bytes[flight.step] = self.payload_bytes.get(flight.step, 0) + nbytes

    def _rejected(self, step: int, reason: str = "") -> None:
        """Account of a window that waited for everything."""
        rows = len(self.recipe.table)
        reason = reason or rejection(self.plan, step)
        self._account(Window(step=step, state=WindowState.REJECTED, reason=reason, waited_rows=rows, write_rows=rows,
                             rows=rows))  # fmt: skip

    def _account(self, window: Window) -> None:
        if window.step < self.plan.steps - 1:
            self.windows.append(window)


class BarrierRuntime(MixedRuntime):
    """`barrier`: a step is observed when the one before is published, and published when it is rendered."""

    def _opened(self, step: int) -> Flight:
        return self._observed_at_once(step)

    def _close(self, flight: Flight) -> None:
        self._rejected(flight.step)
        self._return(flight)
        self._publish(flight)


def mixed_runtime(arm: Arm) -> type[MixedRuntime]:
    """The training loop of an arm. Raises InputError for arms that mixed parallelism does not have."""
    from odin.mixed.predicted import PredictedRuntime
    from odin.mixed.split import GatedRuntime, UrgentRuntime

    known: dict[Waits, type[MixedRuntime]] = {
        Waits.ALL: BarrierRuntime,
        Waits.URGENT: UrgentRuntime,
        Waits.GATED: GatedRuntime,
        Waits.NOTHING: PredictedRuntime,
    }
    if not arm.sas:
        return BarrierRuntime
    if arm.waits not in MIXED:
        raise InputError(
            f"Arm {arm.name!r} is not one of mixed parallelism: its owners exchange projected rows, not gradients of "
            "the whole table. Use barrier, barrier-planned, quality, throughput or predicted."
        )
    return known[arm.waits]
