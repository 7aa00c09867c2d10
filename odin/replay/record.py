"""A recipe that writes down what re-timing will need while another one trains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from odin.arriving import mean, taken
from odin.inflation import Inflation
from odin.keeper import Keeper
from odin.phases import Category, Phase
from odin.plan import Plan
from odin.recipe import Event, Frame, Recipe, Reduce
from odin.replay.trajectory import Bits, EventWork, Trajectory, ViewWork


class RecordingRecipe:
    """Passes every call on to `inner` and keeps a `trajectory`. For arms whose scopes are taken once per step, in
    order: `quality` and its switches."""

    def __init__(self, inner: Recipe[Any], plan: Plan) -> None:
        self.inner, self._plan = inner, plan
        self.trajectory = Trajectory(rows=len(inner.table))
        self._scoped = -1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def scope(self, views: Sequence[int], inflation: Inflation) -> Bits:
        """The scopes of the next step that has none yet."""
        bits = taken(self.inner.scope(views, inflation))
        self._scoped += 1
        if [int(v) for v in self._plan.views(self._scoped)] != list(views):
            raise AssertionError(f"scopes of {list(views)} are not those of step {self._scoped}")
        self.trajectory.scopes[self._scoped] = bits
        return bits

    def project(self, view: int, rows: NDArray[np.int32], keeper: Keeper) -> Frame:
        """Also keeps what a waiting arm would have culled: what is pending lies outside the view either way."""
        cull = taken(self.inner.scope([view], Inflation.none(len(self.inner.table))))[0]
        self.trajectory.culls[keeper.step, view] = cull
        return self.inner.project(view, rows, keeper)

    def render(self, frame: Frame, keeper: Keeper) -> float:
        """Also keeps the amounts of work that the phases state."""
        first = len(keeper.entries)
        loss = mean([self.inner.render(frame, keeper)])
        works = {e.name: e.work for e in keeper.entries[first:] if e.kind == "phase"}
        blend, key = works[Phase.BLEND.value], (keeper.step, frame.view)
        self.trajectory.views[key] = ViewWork(entries=blend.entries, fragments=blend.fragments, pixels=blend.pixels)
        self.trajectory.losses[key] = loss
        return loss

    def restructure(self, step: int, events: Event, version: int, reduce: Reduce, keeper: Keeper) -> None:
        """Also keeps the new number of rows, and the phases and sums of the events."""
        noting = _NotingReduce(reduce, keeper)
        self.inner.restructure(step, events, version, noting, keeper)
        self.trajectory.events[step] = noting.finish()
        self.trajectory.grown[step] = len(self.inner.table)


class _NotingReduce:
    """Passes sums on and notes them, and the phases in between."""

    def __init__(self, inner: Reduce, keeper: Keeper) -> None:
        self.rank, self.ranks = inner.rank, inner.ranks
        self._inner, self._keeper, self._seen = inner, keeper, len(keeper.entries)
        self._works: list[EventWork] = []

    def __call__(self, tensor: torch.Tensor) -> None:
        self.finish()
        self._works.append(EventWork(phase=None, shape=tuple(tensor.shape)))
        self._inner(tensor)

    def finish(self) -> list[EventWork]:
        """Note the phases since the last sum; everything so far."""
        new = self._keeper.entries[self._seen :]
        self._seen = len(self._keeper.entries)
        self._works += [
            EventWork(phase=Phase(e.name), category=Category(e.category), work=e.work) for e in new if e.kind == "phase"
        ]
        return self._works
