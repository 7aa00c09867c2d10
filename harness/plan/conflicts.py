"""What windows will wait for, predicted from the scopes of the initial model as the runtime's partition cuts them.

Legend: N rows, S steps, B views per step, U views per unit, G column groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.plan.durations import Durations
from odin.arriving import taken
from odin.bitmap import count
from odin.bound import adam_bound, selective_bound
from odin.budget import Budget
from odin.hazards import NONE, classify
from odin.inflation import Inflation
from odin.plan import Plan
from odin.points import Kind
from odin.publication.layout import Classes, Cut, Cutting, lay_out
from pipelines.reference.threedgs import GaussianSplatting

MOST_WINDOWS = 400  # evenly spaced; their mean is known to a percent long before
# Segment of the runtime → task on the link.
SEGMENTS = {
    "early": "early",
    "colours": "leading colours",
    "urgent geometry": "urgent geometry",
    "urgent colours": "urgent colours",
    "rest": "rest",
    "urgent": "urgent geometry",
}


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """One window, in rows of the initial model.

    step:    the window lies between this step and the next
    write:   |W⁺(A)|
    raw:     |W⁺(A) ∩ R⁺(B)|, rows whose update some view of B may read
    first:   those that the first view of a unit of B may read: they delay its start
    nbytes:  task on the link → bytes of A's gradient
    update:  task that updates → rows, weighted by the share of their columns
    """

    step: int
    write: int
    raw: int
    first: int
    nbytes: Mapping[str, int]
    update: Mapping[str, float]

    def seconds(self, durations: Durations) -> dict[str, float]:
        """Task → duration of a step whose window is a candidate, for the data-parallel graph."""
        rows = durations.table_rows
        return {
            **durations.compute,
            **{name: durations.transfer(size) for name, size in self.nbytes.items()},
            **{name: durations.update * share / rows for name, share in self.update.items()},
            "validate": durations.validate,
            "zero step": durations.zero * (rows - self.write) / rows,
            "scopes": durations.scopes,
        }


def view_rows(recipe: GaussianSplatting) -> NDArray[np.int64]:
    """Rows in the scope of every training view, int64 [V]."""
    plain = Inflation.none(len(recipe.table))
    return np.array([count(taken(recipe.scope([view], plain))) for view in range(len(recipe.cameras))], np.int64)


def conflicts(recipe: GaussianSplatting, plan: Plan, budget: Budget) -> Iterator[Conflict]:
    """Conflicts of the plan's candidate windows, at most MOST_WINDOWS of them, evenly spaced and in order."""
    chosen = np.flatnonzero(plan.blocking == 0)
    if len(chosen) > MOST_WINDOWS:
        chosen = chosen[np.linspace(0, len(chosen) - 1, MOST_WINDOWS).round().astype(int)]
    known: dict[int, NDArray[np.uint64]] = {}
    for step in (int(s) for s in chosen):
        known = {s: known[s] if s in known else _scopes(recipe, plan, s) for s in (step, step + 1)}
        yield _conflict(recipe, plan, budget, step, known[step], known[step + 1])


def _scopes(recipe: GaussianSplatting, plan: Plan, step: int) -> NDArray[np.uint64]:
    """Packed scopes of a step's views with two updates outstanding, as when they are taken two steps ahead."""
    moves = [_move(recipe, s) for s in range(max(step - 2, 0), step)]
    level = np.zeros(len(recipe.table), np.uint8)
    shift, growth = (np.array([sum(part)]) for part in (zip(*moves, strict=True) if moves else ((0.0,), (0.0,))))
    inflation = Inflation(level=level, shift=shift, growth=growth)
    return taken(recipe.scope([int(v) for v in plan.views(step)], inflation))


def _move(recipe: GaussianSplatting, step: int) -> tuple[float, float]:
    t = step + 1
    return recipe.displacement(step, selective_bound(t) if recipe.table.selective else adam_bound(t))


def _conflict(
    recipe: GaussianSplatting,
    plan: Plan,
    budget: Budget,
    step: int,
    a: NDArray[np.uint64],
    b: NDArray[np.uint64],
) -> Conflict:
    rows = len(recipe.table)
    last, first, _ = classify(a, a, b, b, ranks=plan.ranks, unit=plan.views_per_unit, rows=rows)
    written, cut = last != NONE, lay_out(Classes(last=last, need=first), _cutting(recipe, plan, budget, a))
    return Conflict(
        step=step,
        write=int(written.sum()),
        raw=int((written & (first != NONE)).sum()),
        first=int((written & (first == 0)).sum()),
        nbytes=_bytes(recipe, cut),
        update=_updates(recipe, cut),
    )


def _cutting(recipe: GaussianSplatting, plan: Plan, budget: Budget, a: NDArray[np.uint64]) -> Cutting:
    """As `odin.publication.scoped` cuts, with unit order and early rows switched on."""
    table, unit = recipe.table, plan.views_per_unit
    row_bytes = 4 * table.slot_layout.columns
    return Cutting(
        unit=unit,
        groups=len(table.layout.groups),
        split=recipe.splittable,
        early=budget.early_rows(count(a) / plan.ranks, unit, len(table) * row_bytes, row_bytes),
        lead=budget.colour_rows(min(count(bits) for bits in a[unit - 1 :: unit]), 4 * table.layout.groups[1].width),
        visible=table.visible_group,
    )


def _bytes(recipe: GaussianSplatting, cut: Cut) -> dict[str, int]:
    widths = [group.width for group in recipe.table.slot_layout.groups]
    sizes = dict.fromkeys(SEGMENTS.values(), 0)
    for segment in cut.segments:
        name = SEGMENTS[segment.name.rstrip(" 0123456789")]
        sizes[name] += sum(4 * len(block.rows) * sum(widths[g] for g in block.groups) for block in segment.blocks)
    return sizes


_DUE = {Kind.GEOMETRY: "update geometry", Kind.COLOUR: "update colours", Kind.CLOSE: "update rest"}


def _updates(recipe: GaussianSplatting, cut: Cut) -> dict[str, float]:
    bounds = recipe.table.layout.bounds
    shares = dict.fromkeys(_DUE.values(), 0.0)
    for part in (part for segment in cut.segments for part in segment.parts):
        columns = bounds[part.hi] - bounds[part.lo]
        shares[_DUE[part.due.kind]] += len(part.rows) * float(columns) / recipe.table.layout.columns
    return shares
