"""`quality`: a step waits only for rows it may read and its predecessor may have written (§4.3, rows only).

Steps A → B → C. For a row outside W⁺(A) the gradient of A is zero on every rank, so its Adam step is local and
deterministic and is taken at once at p0. Rows of W⁺(A) wait for the reduced gradient; those that some view of B
may read (urgent) travel first and are published at p1 of B, the rest at p0 of B. The result is bit-identical to
waiting for everything (D§5).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from odin.bound import adam_bound
from odin.inflation import Inflation
from odin.memory import Holding, MemoryCategory
from odin.phases import Phase
from odin.publication.base import Publication, WindowState
from odin.rows import Update, apply_zero
from odin.slot import SegmentSpec

REJECTED_SHARE = 0.95  # waited rows at or above this share of the transfer: the window did not open (D§3)


URGENT = "urgent"


class UrgentPublication(Publication):
    """Exact overlap by conservative scopes."""

    _scopes: dict[int, NDArray[np.bool_]]  # step → bool [B, N], views in unit order
    _written: dict[int, NDArray[np.bool_]]  # step → W⁺, bool [N]
    _urgent: NDArray[np.int32]
    _rest: NDArray[np.int32]  # rows of W⁺ outside urgent

    def restart(self, step: int) -> None:
        """Scopes of the next two steps, afresh from fully published state."""
        super().restart(step)
        self._scopes, self._written = {}, {}
        if step < self.plan.steps:
            self._scope(step, Inflation.none(len(self.recipe.table)))
            self._scope_successor(step, self.recipe.table.t + 1)

    def open(self, step: int) -> None:
        """Partition: urgent rows, then all others; two plain buckets where the window is blocking."""
        if self.blocked(step):
            super().open(step)
            return
        with self.keeper.phase(Phase.HAZARDS, rows=len(self.recipe.table)):
            written = self._written[step]
            urgent = self.conflicts(written, self._written[step + 1])
            self._urgent = np.flatnonzero(urgent).astype(np.int32)
            self._rest = np.flatnonzero(written & ~urgent).astype(np.int32)
            others = np.flatnonzero(~urgent).astype(np.int32)
        groups = self.recipe.table.layout.every_group
        self._partition(
            step,
            [
                SegmentSpec(name=URGENT, rows=self._urgent, groups=groups),
                SegmentSpec(name="rest", rows=others, groups=groups),
            ],
        )

    def conflicts(self, written: NDArray[np.bool_], read: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The hazard check: rows pending in A that some view of B may read (RAW; with W⁺ = R⁺ also WAW)."""
        return written & read

    def rows_for(self, step: int, position: int) -> NDArray[np.int32]:
        """The view's scope, fixed one step ago; it contains every row the view can touch."""
        index = self.transport.rank * self.plan.views_per_unit + position
        return np.flatnonzero(self._scopes[step][index]).astype(np.int32)

    def before_projection(self, step: int, position: int) -> None:
        """p1(1): publish the predecessor's urgent rows. Without unit order nothing is left for later views."""
        pending = self.ledger.oldest()
        if position == 0 and pending is not None and pending.launched[0][0].name == URGENT:
            self._publish_next(pending)

    def close(self, step: int) -> None:
        """p0: send this step, finish the predecessor, step the complement, then look two steps ahead."""
        if self.blocked(step):
            self._close_blocked(step)
        else:
            self._close_open(step)
        self._scopes.pop(step), self._written.pop(step)

    def abandon(self, step: int) -> None:
        """Publish the predecessor; this step's gradient is dropped."""
        self._finish_predecessor(step)
        self._account(step, WindowState.REJECTED, 0, 0)

    def _close_blocked(self, step: int) -> None:
        pending = self._begin_pending(step)
        self._launch_buckets(pending)
        self._finish_predecessor(step)
        self._publish_all_rows(pending)
        rows = len(self.recipe.table)
        self._account(step, WindowState.REJECTED, rows, int(self._written[step].sum()))

    def _close_open(self, step: int) -> None:
        pending = self._begin_pending(step)
        first, second = pending.slot.segments
        self._launch(pending, first, self._urgent)
        self._launch(pending, second, self._rest)
        self._finish_predecessor(step)
        complement = np.flatnonzero(~self._written[step]).astype(np.int32)
        with self.keeper.phase(Phase.ZERO_STEP, rows=len(complement)):
            apply_zero(self.recipe.table.moments, pending.update, self._rows(complement))
        self._account_open(step)
        self._scope_two_ahead(step, pending.update)

    def _account_open(self, step: int) -> None:
        waited, rows = len(self._urgent), len(self.recipe.table)
        state = WindowState.CLEAR if waited == 0 else WindowState.PARTIAL
        if waited >= REJECTED_SHARE * rows:
            state = WindowState.REJECTED
        self._account(step, state, waited, waited + len(self._rest))

    def _finish_predecessor(self, step: int) -> None:
        pending = self.ledger.oldest()
        if pending is not None and pending.step < step:
            while pending.launched:
                self._publish_next(pending)
            self.ledger.done(pending)

    def holdings(self) -> Iterator[Holding]:
        """As every policy, and the scopes of the steps to come (`odin.memory`)."""
        yield from super().holdings()
        held = vars(self)  # nothing of it is there before the first `restart` and `open`
        for name in ("_scopes", "_written"):
            for scopes in held.get(name, {}).values():
                yield MemoryCategory.SCOPES, scopes
        for name in ("_urgent", "_rest"):
            if name in held:
                yield MemoryCategory.ROW_LISTS, held[name]

    # Scopes -----------------------------------------------------------------------------------------------

    def _scope_two_ahead(self, step: int, update: Update) -> None:
        """Scopes of C at p0 of A: A's update is outstanding on W⁺(A), B's on every row."""
        if self.blocked(step + 1):
            return
        shift_b, growth_b = self._moves(step + 1, update.t + 1)
        shift_a, growth_a = self._moves(step, update.t)
        inflation = Inflation(
            level=self._written[step].astype(np.uint8),
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
        return self.recipe.displacement(step, adam_bound(t))

    def _scope(self, step: int, inflation: Inflation) -> None:
        views = [int(v) for v in self.plan.views(step)]
        with self.keeper.phase(Phase.SCOPES, rows=len(self.recipe.table) * len(views)):
            self._scopes[step] = self.recipe.scope(views, inflation)
            self._written[step] = np.logical_or.reduce(self._scopes[step], axis=0)
