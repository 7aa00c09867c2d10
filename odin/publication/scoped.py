"""What policies with scopes share: scopes of each step two steps ahead, the cut of a step, and the window's account.

Steps A → B → C. For a row outside W⁺(A) the gradient of A is zero on every rank, so its Adam step is local and
deterministic and is taken at once at p0. Rows of W⁺(A) wait for the reduced gradient; a policy says which of them B
has to wait for, and where (`classes`). All of this is replicated: no rank-local data enters a cut (D§6 Segments).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odin.bitmap import count, row_ids, union
from odin.bound import adam_bound, selective_bound
from odin.hazards import NONE, Hazards, classify
from odin.inflation import Inflation
from odin.memory import Holding, MemoryCategory
from odin.phases import Phase
from odin.points import CLOSE
from odin.publication.base import Publication
from odin.publication.layout import NO_CUT, Classes, Cutting, lay_out
from odin.publication.window import Window, WindowState, state_of
from odin.rows import Update

Bits = NDArray[np.uint64]


class ScopedPublication(Publication):
    """Overlap by conservative scopes; subclasses say what B waits for."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._scopes: dict[int, Bits] = {}  # step → packed scopes of its views in unit order, [B, K]
        self._written: dict[int, Bits] = {}  # step → W⁺, [K]
        self._hazards: Hazards | None = None
        self._cut = NO_CUT

    def restart(self, step: int) -> None:
        """Scopes of the next two steps, afresh from fully published state."""
        super().restart(step)
        self._scopes, self._written = {}, {}
        if step < self.plan.steps:
            self._scope(step, Inflation.none(len(self.recipe.table)))
            self._scope_successor(step, self.recipe.table.t + 1)

    def open(self, step: int) -> None:
        """Cut the step by what its successor reads; in two plain buckets where the window is blocking."""
        if self.blocked(step):
            super().open(step)
            return
        with self.keeper.phase(Phase.HAZARDS, rows=len(self.recipe.table)):
            last, first = self._classify(step)
            classes = self.classes(step, Classes(last=last, need=first))
            self._cut = lay_out(classes, self.cutting(step))
            self.transport.agree(step, self._cut.digest)
        self._partition(step, self._cut.segments)

    @abstractmethod
    def classes(self, step: int, found: Classes) -> Classes:
        """What each row of the step is needed for, given the first view of B that may read it. The public tests
        replace this by a mutant that waits for nothing."""

    def cutting(self, step: int) -> Cutting:
        """How to cut the step, by the arm's switches and the budget."""
        arm, table, unit = self.arm, self.recipe.table, self.plan.views_per_unit
        scopes, rows = self._scopes[step], len(table)
        row_bytes = 4 * table.slot_layout.columns
        early = self.budget.early_rows(count(scopes) / self.plan.ranks, unit, rows * row_bytes, row_bytes)
        last_views = min(count(bits) for bits in scopes[unit - 1 :: unit])
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

    def rows_for(self, step: int, position: int) -> NDArray[np.int32]:
        """The view's scope, fixed one step ago; it contains every row the view can touch."""
        index = self.unit_of(step) * self.plan.views_per_unit + position
        return row_ids(self._scopes[step][index], len(self.recipe.table))

    def _open_window(self, step: int) -> None:
        """Step the complement, then look two steps ahead."""
        self._step_outside(step)
        self._account(self._window(step))
        self._scope_two_ahead(step, self._pending(step).update)

    def _closed(self, step: int) -> None:
        self._scopes.pop(step), self._written.pop(step)

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
        rows, written = len(self.recipe.table), count(self._written[step])
        pending = self.ledger.pending(step)
        if pending is None:
            return Window(step=step, state=WindowState.REJECTED, waited_rows=rows, write_rows=written, rows=rows)
        waited = sum(len(p.rows) for due, ps in pending.due.items() if due != CLOSE for _, p in ps if p.lo == 0)
        state = state_of(waited, rows)
        return Window(
            step=step,
            state=state,
            reason=self._reason(step) if state is WindowState.REJECTED else "",
            hazards=self._hazards,
            waited_rows=waited,
            delayed_rows=len(self._cut.delayed),
            write_rows=written,
            rows=rows,
        )

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
        shift_b, growth_b = self._moves(step + 1, update.t + 1)
        shift_a, growth_a = self._moves(step, update.t)
        level = np.ones(len(self.recipe.table), np.uint8)
        level[self._cut.outside] = 0
        inflation = Inflation(
            level=level,
            shift=np.array([shift_b, shift_a + shift_b]),
            growth=np.array([growth_b, growth_a + growth_b]),
        )
        self._scope(step + 2, inflation)

    def _scope_successor(self, step: int, t: int) -> None:
        """Scopes of the step after `step`, from published state: only `step`'s own update is outstanding."""
        if self.blocked(step):
            return
        shift, growth = self._moves(step, t)
        level = np.zeros(len(self.recipe.table), np.uint8)
        self._scope(step + 1, Inflation(level=level, shift=np.array([shift]), growth=np.array([growth])))

    def _moves(self, step: int, t: int) -> tuple[float, float]:
        bound = selective_bound(t) if self.recipe.table.selective else adam_bound(t)
        return self.recipe.displacement(step, bound)

    def _scope(self, step: int, inflation: Inflation) -> None:
        views = [int(v) for v in self.plan.views(step)]
        with self.keeper.phase(Phase.SCOPES, rows=len(self.recipe.table) * len(views)):
            self._scopes[step] = self.recipe.scope(views, inflation)
            self._written[step] = union(self._scopes[step])
