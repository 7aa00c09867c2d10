"""What single views of a model in training may read, activate and move: the three localities of §2.1.

    geometry     G: the conservative scope R⁺, known before the view reads anything
    computation  C: rows with a gradient, known after its backward
    importance   rows of C whose gradient norm is above τ · mean over C: what the gate of §4.3 holds back

One process trains with a barrier; no arm, no link and no clock is involved. Nothing is trained by looking.

Legend: N rows, V views looked at, K words of a packed scope, A entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.gate_window import TAU, Training
from odin.arriving import taken
from odin.bitmap import count, row_ids
from odin.inflation import Inflation
from odin.keeper import Keeper
from odin.planner import Activity

DEFAULTS = ("ranks=1", "views_per_unit=4", "link=none", "padded=false")


@dataclass(frozen=True, kw_only=True)
class ViewSets:
    """The sets of V views at one state of the model. scopes: packed, uint64 [V, K]."""

    scopes: NDArray[np.uint64]
    activity: Activity

    def shares(self) -> dict[str, NDArray[np.float64]]:
        """Share of all N rows that each view keeps under each locality, float64 [V]."""
        a = self.activity
        important = np.bincount(a.view_of[a.important(TAU)], minlength=a.view_count)
        found = {"geometry": [count(scope) for scope in self.scopes], "computation": np.diff(a.offsets),
                 "importance": important}  # fmt: skip
        return {name: np.asarray(rows) / a.row_count for name, rows in found.items()}


def look_at_views(training: Training, views: Sequence[int]) -> ViewSets:
    """Render every view and go back through it at current values; parameters and statistics stay as they are."""
    recipe, keeper = training.recipe, Keeper()
    rows = len(recipe.table)
    scopes = taken(recipe.scope(list(views), Inflation.none(rows)))
    ids: list[NDArray[np.int32]] = []
    norms: list[NDArray[np.float32]] = []
    with recipe.unobserved():
        for view, bits in zip(views, scopes, strict=True):
            frame = recipe.project(int(view), row_ids(bits, rows), keeper)
            recipe.render(frame, keeper)
            parts = recipe.backward_colours(frame), recipe.backward_geometry(frame)
            norm = np.sqrt(sum(np.square(part, dtype=np.float64).sum(axis=1) for part in parts))
            ids.append(frame.rows[norm > 0])
            norms.append(norm[norm > 0].astype(np.float32))
            keeper.entries.clear()
    offsets = np.concatenate([[0], np.cumsum([len(own) for own in ids])]).astype(np.int64)
    activity = Activity(offsets=offsets, rows=np.concatenate(ids), norms=np.concatenate(norms), row_count=rows)
    return ViewSets(scopes=scopes, activity=activity)


def train(training: Training, first: int, last: int) -> None:
    """Train steps first…last-1 of the plan, structural events included."""
    for step in range(first, last):
        gradients = training.gradients(step)
        if not training.drops_gradient(step):
            training.publish(step, gradients)
        training.restructure(step)
