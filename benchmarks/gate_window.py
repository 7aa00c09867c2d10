"""What the throughput gate would let a step read late, and what that does to the step's gradient (D§6, D§10 Review 1).

One process trains like `barrier-planned` and stops at a window A → B: A's update is published, then B's gradient is
computed once from published values and once from values of before A on the rows that pass the gate. No arm, no link
and no clock is involved, so this holds for any runtime that implements the gate.

Legend: N rows, D columns, W ranks. R(B) rows that a view of B may read, C(A) rows with a gradient in A.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odin.bitmap import row_ids, union, unpack
from odin.comm.transport import SingleRank
from odin.evidence import Gate, active_mean
from odin.inflation import Inflation
from odin.keeper import Keeper
from odin.plan import Plan
from odin.recipe import Event
from odin.rows import Rows, Update, apply_gradient, apply_zero
from odin.runtime import RankSum
from odin.segments import Block, SegmentSpec
from odin.slot import GradientSlot
from pipelines.reference.threedgs import GaussianSplatting

TAU = 0.2  # the paper's admission parameter

Floats = NDArray[np.float32]
Norms = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Training:
    """Barrier training along a plan in one process; `history` is each row's last published reduced norm, float64
    [N], NaN where there is none yet."""

    def __init__(self, recipe: GaussianSplatting, plan: Plan) -> None:
        self.recipe, self.plan = recipe, plan
        self.loss = 0.0
        self._keeper = Keeper()
        self._version = 0
        self._renew()

    def _renew(self) -> None:
        table = self.recipe.table
        self._slot = GradientSlot(len(table), table.layout)
        self._whole = SegmentSpec(name="all", blocks=(Block(rows=table.every_row, groups=table.layout.every_group),))
        self.rows = Rows(ids=table.every_row, layout=table.layout, lo=0, hi=len(table.layout.groups))
        self.history: Norms = np.full(len(table), np.nan)

    def reads(self, step: int) -> Mask:
        """R of a step at current values, bool [N]."""
        views = [int(view) for view in self.plan.views(step)]
        rows = len(self.recipe.table)
        return unpack(union(self.recipe.scope(views, Inflation.none(rows))), rows)

    def gradient(self, step: int, rank: int) -> Floats:
        """Gradient of one rank's unit at current values, float32 [N, D], summed over its views."""
        views = [int(view) for view in self.plan.units[step, rank]]
        rows = len(self.recipe.table)
        scopes = self.recipe.scope(views, Inflation.none(rows))
        self._slot.partition([self._whole])
        losses = []
        for view, bits in zip(views, scopes, strict=True):
            frame = self.recipe.project(view, row_ids(bits, rows), self._keeper)
            losses.append(self.recipe.render(frame, self._keeper))
            self._slot.add(1, frame.rows, self.recipe.backward_colours(frame))
            self._slot.add(0, frame.rows, self.recipe.backward_geometry(frame))
        self.loss = float(np.mean(losses))
        self._keeper.entries.clear()
        return self._slot.dense()

    def gradients(self, step: int) -> list[Floats]:
        """Of all ranks, W of [N, D]."""
        return [self.gradient(step, rank) for rank in range(self.plan.ranks)]

    def publish(self, step: int, gradients: list[Floats]) -> Update:
        """Apply the reduced gradient to all rows."""
        table = self.recipe.table
        table.t += 1
        update = Update(t=table.t, lr=self.recipe.learning_rates(step), scale=1.0 / self.plan.global_batch)
        reduced = np.add.reduce(gradients)
        first = np.arange(len(table), dtype=np.int64) * table.layout.columns
        offsets = np.stack([first + group.first for group in table.layout.groups])
        apply_gradient(table.moments, update, self.rows, reduced.reshape(-1), offsets)
        active = row_norms(reduced) > 0
        self.history[active] = row_norms(reduced)[active]
        return update

    def drops_gradient(self, step: int) -> bool:
        """Whether the step densifies, so that its gradient is thrown away."""
        return Event.DENSIFY in self.recipe.events_after(step)

    def restructure(self, step: int) -> None:
        """Structural events after a step; new rows have no history, and none is left after densification."""
        events = self.recipe.events_after(step)
        if events:
            self._version += 1
            self.recipe.restructure(step, events, self._version, RankSum(SingleRank(), self._keeper), self._keeper)
            if Event.DENSIFY in events:
                self._renew()


def row_norms(gradient: Floats) -> Norms:
    """‖g(p)‖ over all D columns, float64 [N]."""
    return np.sqrt(np.square(gradient, dtype=np.float64).sum(axis=1))


def passing(norms: Norms, counted: Mask, tau: float = TAU) -> Mask:
    """Rows whose norm is at most τ times the mean over the `counted` rows that have evidence; none where no counted
    row has any. A row without evidence (NaN) is urgent."""
    known = norms[counted & np.isfinite(norms)]
    return norms <= tau * known.mean() if len(known) else np.zeros(len(norms), bool)


def smallest(mask: Mask, norms: Norms, limit: int) -> Mask:
    """The `limit` rows of `mask` with the smallest norms: the others become urgent until ρ = τ (D§6)."""
    rows = np.flatnonzero(mask)
    kept = np.zeros_like(mask)
    kept[rows[np.argsort(norms[rows], kind="stable")][:limit]] = True
    return kept


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What one kind of evidence decides on each rank: masks of delayed rows and norms, each W of [N]."""

    name: str
    delayed: list[Mask]
    norms: list[Norms]


def all_evidence(training: Training, gradients: list[Floats], history: Norms, written: Mask) -> Iterator[Evidence]:
    """The gate by three kinds of evidence about A, before R(B) and C(A) are considered.

    reduced: norms of A's reduced gradient, mean over C(A)
    history: each row's norm in its last step before A, mean over W(A) (`written`): C(A) is not known in time
    local:   each rank's own norms, mean over the rows with a gradient there; the paper's post-backward evidence, by
             which rows without a gradient on a rank pass
    runtime: what `throughput:evidence=local` delays (D§6): no evidence, no delay, and the mean over W(A) of the norms
             before A, which all ranks know
    """
    ranks = len(gradients)
    reduced = row_norms(np.add.reduce(gradients))
    yield Evidence(name="reduced", delayed=[passing(reduced, reduced > 0)] * ranks, norms=[reduced] * ranks)
    yield Evidence(name="history", delayed=[passing(history, written)] * ranks, norms=[history] * ranks)
    own = [row_norms(gradient) for gradient in gradients]
    yield Evidence(name="local", delayed=[passing(norms, norms > 0) for norms in own], norms=own)
    gate, mean = Gate(tau=TAU), active_mean(history[written])
    yield Evidence(name="runtime", delayed=[gate.passes(norms, mean) for norms in own], norms=own)


class _Window:
    """A → B with A published. Errors are ‖g_B(read) - g_B(published)‖ / ‖g_B(published)‖ of B's reduced gradient."""

    def __init__(self, training: Training, step: int, gradients: list[Floats]) -> None:
        self.training, self.step = training, step
        self.history = training.history.copy()
        self.written = training.reads(step)
        state = training.recipe.table.moments
        before = [part.copy() for part in (state.p, state.m, state.v)]
        update = training.publish(step, gradients)
        after = [part.copy() for part in (state.p, state.m, state.v)]
        _restore((state.p, state.m, state.v), before)
        apply_zero(state, update, training.rows)
        self.stale, self.predicted, self.published = before[0], state.p.copy(), after[0]
        _restore((state.p, state.m, state.v), after)
        self.read = training.reads(step + 1)
        self.gradient = np.add.reduce(training.gradients(step + 1))

    def error(self, delayed: list[Mask], values: Floats) -> float:
        """Of B's gradient when rank w reads the rows of delayed[w] at `values`, float32 [N, D]."""
        parameters = self.training.recipe.table.moments.p
        reduced = np.zeros_like(self.gradient)
        for rank, mask in enumerate(delayed):
            parameters[:] = np.where(mask[:, None], values, self.published)
            reduced += self.training.gradient(self.step + 1, rank)
        parameters[:] = self.published
        return float(np.linalg.norm(reduced - self.gradient) / np.linalg.norm(self.gradient))


def _restore(state: tuple[Floats, ...], values: list[Floats]) -> None:
    for part, value in zip(state, values, strict=True):
        part[:] = value


def look_at_window(training: Training, step: int, gradients: list[Floats]) -> list[dict[str, object]]:
    """Publish A = `step` and measure the window to step + 1; one row per kind of evidence.

    Columns: step, evidence; scope_rows |R(B)|; conflict_rows |R(B) ∩ C(A)|; passing, share of conflict rows that pass
    the gate; rho, passing rows / |R(B)|; energy, their share of ‖g_B‖²; stale, error when exactly they are read as of
    before A; capped, the same with the largest norms made urgent until ρ ≤ τ; predicted, error when they are read at
    their zero-gradient step; stale_all and predicted_all, the same for all rows. Per-rank shares are averaged.
    """
    statistics = training.recipe.statistics.local
    gathered = statistics.clone()
    window = _Window(training, step, gradients)
    conflict = window.read & (row_norms(np.add.reduce(gradients)) > 0)
    energy = row_norms(window.gradient) ** 2
    scope, limit = int(window.read.sum()), int(TAU * window.read.sum())
    everything = [np.ones_like(conflict)] * len(gradients)
    common = {
        "step": step,
        "scope_rows": scope,
        "conflict_rows": int(conflict.sum()),
        "stale_all": window.error(everything, window.stale),
        "predicted_all": window.error(everything, window.predicted),
    }
    found: list[dict[str, object]] = []
    for evidence in all_evidence(training, gradients, window.history, window.written):
        delayed = [mask & conflict for mask in evidence.delayed]
        capped = [smallest(mask, norms, limit) for mask, norms in zip(delayed, evidence.norms, strict=True)]
        count = float(np.mean([mask.sum() for mask in delayed]))
        own = {
            "evidence": evidence.name,
            "passing": count / max(1, int(conflict.sum())),
            "rho": count / scope,
            "energy": float(np.mean([energy[mask].sum() for mask in delayed]) / energy.sum()),
            "stale": window.error(delayed, window.stale),
            "capped": window.error(capped, window.stale),
            "predicted": window.error(delayed, window.predicted),
        }
        found.append(common | own)
    statistics.copy_(gathered)  # looking at B must not count as training it
    return found
