"""What policies with scopes share: scopes of each step two steps ahead, the cut of a step, and the window's account.

Steps A → B → C. For a row outside W⁺(A) the gradient of A is zero on every rank, so its Adam step is local and
deterministic and is taken at once at p0. Rows of W⁺(A) wait for the reduced gradient; a policy says which of them B
has to wait for, and where (`classes`). All of this is replicated: no rank-local data enters a cut (D§6 Segments).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odin.arriving import Scopes, taken
from odin.bitmap import row_ids, summary
from odin.hazards import NONE, Hazards, classify
from odin.inflation import Inflation, levels
from odin.memory import Holding, MemoryCategory
from odin.phases import Phase
from odin.points import CLOSE, geometry
from odin.publication.base import Publication
from odin.publication.layout import NO_CUT, Classes, Cut, Cutting, lay_out
from odin.publication.window import Window, WindowState, state_of
from odin.rows import Update
from odin.segments import Part
from odin.slot import Segment, Slot

Bits = NDArray[np.uint64]
NOWHERE = -1  # no step


class ScopedPublication(Publication):
    """Overlap by conservative scopes; subclasses say what B waits for."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._scopes: dict[int, Bits] = {}  # step → packed scopes of its views in unit order, [B, K]
        self._written: dict[int, Bits] = {}  # step → W⁺, [K]
        self._sizes: dict[int, tuple[list[int], int]] = {}  # step → rows in each of its scopes [B], and in W⁺
        self._asked: dict[int, Scopes] = {}  # step → scopes that the host has not taken yet
        self._uncut = NOWHERE
        self._hazards: Hazards | None = None
        self._cut = NO_CUT

    def restart(self, step: int) -> None:
        """Scopes of the next two steps, afresh from fully published state."""
        super().restart(step)
        self._scopes, self._written, self._sizes = {}, {}, {}
        self._asked, self._uncut = {}, NOWHERE
        if step < self.plan.steps:
            self._scope(step, lambda: Inflation.none(len(self.recipe.table)))
            self._scope_successor(step, self.recipe.table.t + 1)

    def open(self, step: int) -> None:
        """Cut the step by what its successor reads; in two plain buckets where the window is blocking. A host that runs
        ahead cuts when the slot is needed, with the views' forward passes in front of the device."""
        if self.blocked(step):
            super().open(step)
        elif self.recipe.table.host_ahead:
            self._uncut = step
        else:
            self._cut_by_reads(step)

    def slot(self, step: int) -> Slot:
        """The step's slot, cut."""
        if self._uncut == step:
            self._uncut = NOWHERE
            self._cut_by_reads(step)
        return super().slot(step)

    def _cut_by_reads(self, step: int) -> None:
        self._take(step)
        self._take(step + 1)
        with self.keeper.phase(Phase.HAZARDS, rows=len(self.recipe.table)):
            self._cut, self._hazards = self.recipe.table.once(lambda: self._compare(step))
            self.transport.agree(step, self._cut.digest)
        self._partition(step, self._cut.segments)

    def _compare(self, step: int) -> tuple[Cut, Hazards | None]:
        """The cut, and the conflicts that it comes from."""
        found, hazards = self._conflicts(step)
        return lay_out(self.classes(step, found), self.cutting(step)), hazards

    def _conflicts(self, step: int) -> tuple[Classes, Hazards | None]:
        """Who writes a row last and who reads it first, and how many rows conflict by kind."""
        last, first = self._classify(step)
        return Classes(last=last, need=first), self._hazards

    @abstractmethod
    def classes(self, step: int, found: Classes) -> Classes:
        """What each row of the step is needed for, given the first view of B that may read it. The public tests
        replace this by a mutant that waits for nothing."""

    def cutting(self, step: int) -> Cutting:
        """How to cut the step, by the arm's switches and the budget."""
        arm, table, unit = self.arm, self.recipe.table, self.plan.views_per_unit
        sizes, _ = self._sizes[step]
        row_bytes = 4 * table.slot_layout.columns
        early = self.budget.early_rows(sum(sizes) / self.plan.ranks, unit, self._carried(step), row_bytes)
        last_views = min(sizes[unit - 1 :: unit])
        colour_bytes = 4 * sum(group.width for group in table.layout.groups[1:])
        return Cutting(
            unit=unit,
            groups=len(table.layout.groups),
            split=arm.groups and self.recipe.splittable,
            early=early if arm.early else 0,
            lead=self.budget.colour_rows(last_views, colour_bytes),
            visible=table.visible_group,
            read=table.groups_read(step),
        )

    def _carried(self, step: int) -> int:
        """Bytes of the step before that travel on when this one begins: what follows the last segment that its first
        projection waits for. Behind a blocking window nothing does."""
        pending = self.ledger.pending(step - 1)
        if pending is None:
            return 0
        segments = pending.slot.segments
        held = (s.stop for s in reversed(segments) if any(part.due == geometry(0) for part in s.spec.parts))
        return 4 * (segments[-1].stop - next(held, 0))

    def rows_for(self, step: int, position: int) -> NDArray[np.int32]:
        """The view's scope, fixed one step ago; it contains every row the view can touch."""
        self._take(step)
        index = self.unit_of(step) * self.plan.views_per_unit + position
        return row_ids(self._scopes[step][index], len(self.recipe.table))

    def _open_window(self, step: int) -> None:
        """Step the complement, then look two steps ahead."""
        self._step_outside(step)
        self._account(self._window(step))
        self._scope_two_ahead(step, self._pending(step).update)

    def _closed(self, step: int) -> None:
        self._scopes.pop(step), self._written.pop(step), self._sizes.pop(step)

    def holdings(self) -> Iterator[Holding]:
        """Scopes of steps to come, and the current cut."""
        yield from super().holdings()
        for bits in (*self._scopes.values(), *self._written.values()):
            yield MemoryCategory.SCOPES, bits
        yield MemoryCategory.ROW_LISTS, self._cut.outside
        yield MemoryCategory.ROW_LISTS, self._cut.delayed
        for spec in self._cut.segments:
            yield from spec.holdings()

    def _step_outside(self, step: int) -> None:
        """Rows without a gradient take their Adam step at once."""
        pending = self._pending(step)
        with self.keeper.phase(Phase.ZERO_STEP, rows=len(self._cut.outside)):
            self.recipe.table.apply_zero(pending.update, self._cut.outside)

    def _window(self, step: int) -> Window:
        rows, written = len(self.recipe.table), self._sizes[step][1]
        pending = self.ledger.pending(step)
        if pending is None:
            return Window(step=step, state=WindowState.REJECTED, waited_rows=rows, write_rows=written, rows=rows)
        waited = sum(len(p.rows) for due, ps in pending.due.items() if due != CLOSE for _, p in ps if p.lo == 0)
        held = self._share(pending.due.get(geometry(0), ()))
        state = state_of(waited, held)
        return Window(
            step=step,
            state=state,
            reason=self._reason(step) if state is WindowState.REJECTED else "",
            hazards=self._hazards,
            waited_rows=waited,
            delayed_rows=len(self._cut.delayed),
            held=held,
            write_rows=written,
            rows=rows,
        )

    def _share(self, parts: Iterable[tuple[Segment, Part]]) -> float:
        """Of the step's transfer, by bytes."""
        table = self.recipe.table
        return self._columns(part for _, part in parts) / max(len(table) * int(table.layout.bounds[-1]), 1)

    def _columns(self, parts: Iterable[Part]) -> int:
        """Elements of some parts."""
        bounds = self.recipe.table.layout.bounds
        return sum(len(part.rows) * int(bounds[part.hi] - bounds[part.lo]) for part in parts)

    @property
    def _row_count(self) -> int:
        return len(self.recipe.table)

    # Hazards ----------------------------------------------------------------------------------------------

    def _classify(self, step: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Positions of the last view of A that writes a row and of the first view of B that reads it."""
        a, b, plan = self._scopes[step], self._scopes[step + 1], self.plan
        last, first, self._hazards = classify(
            a, a, self.write_scopes(step + 1), b, ranks=plan.ranks, unit=plan.views_per_unit, rows=self._row_count
        )
        if not self.arm.unit_order:
            first = np.where(first == NONE, first, np.uint8(0))
        return last, first

    def write_scopes(self, step: int) -> Bits:
        """W⁺ of a step's views, [B, K]; for splatting it is R⁺."""
        return self._scopes[step]

    # Scopes -----------------------------------------------------------------------------------------------

    def _scope_two_ahead(self, step: int, update: Update) -> None:
        """Scopes of C at p0 of A: A's update is outstanding where its zero step was not taken, B's on every row."""
        if self.blocked(step + 1):
            return

        def inflation() -> Inflation:
            shift_b, growth_b = self._moves(step + 1, update.t + 1)
            shift_a, growth_a = self._moves(step, update.t)
            return Inflation(
                level=levels(len(self.recipe.table), self._cut.outside),
                shift=np.array([shift_b, shift_a + shift_b]),
                growth=np.array([growth_b, growth_a + growth_b]),
            )

        self._scope(step + 2, inflation)

    def _scope_successor(self, step: int, t: int) -> None:
        """Scopes of the step after `step`, from published state: only `step`'s own update is outstanding."""
        if self.blocked(step):
            return

        def inflation() -> Inflation:
            shift, growth = self._moves(step, t)
            level = np.zeros(len(self.recipe.table), np.uint8)
            return Inflation(level=level, shift=np.array([shift]), growth=np.array([growth]))

        self._scope(step + 1, inflation)

    def _scope(self, step: int, inflation: Callable[[], Inflation]) -> None:
        """Scopes of a step within an inflation, whose making is part of the phase."""
        views = self.plan.views(step).tolist()
        with self.keeper.phase(Phase.SCOPES, rows=len(self.recipe.table) * len(views)):
            scopes = self.recipe.scope(views, inflation())
            if self.recipe.table.host_ahead:
                self._asked[step] = scopes
            else:
                self._enter(step, scopes)

    def _enter(self, step: int, scopes: Scopes) -> None:
        self._scopes[step] = taken(scopes)
        self._written[step], sizes, written = summary(self._scopes[step])
        self._sizes[step] = (sizes.tolist(), written)  # of numbers so few, numpy is the slower one

    def _take(self, step: int) -> None:
        """From here on the step's scopes are known to the host."""
        if step in self._asked:
            self._enter(step, self._asked.pop(step))
