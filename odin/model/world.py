"""A recipe without images, whose table and slots note what the runtime does to them.

Values never change: which rows a view touches depends only on how often each has moved (`Scenario.appears`), and a
scope contains what it may touch after as many further moves as its inflation allows for, no more.

Legend: N rows, M rows of one view, V views asked about.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch
from numpy.typing import NDArray

from odin.bitmap import pack
from odin.inflation import Inflation
from odin.keeper import Keeper
from odin.layout import ColumnGroup, ColumnLayout
from odin.ledger import Ledger
from odin.model.actions import Action, Apply, Clear, Inspect, Publish, Read, Restructure, Rows, Write
from odin.model.scenario import Scenario
from odin.recipe import Event, Reduce
from odin.rows import Update
from odin.segments import SegmentSpec
from odin.slot import GradientSlot, Segment, Slot
from odin.table import ParameterTable

LAYOUT = ColumnLayout(
    groups=(ColumnGroup(name="geometry", first=0, last=1), ColumnGroup(name="colour", first=1, last=2))
)
_GROUPS = len(LAYOUT.groups)

Ids = NDArray[np.int32]
Floats = NDArray[np.float32]


class Notes:
    """The actions of one rank so far, and the slice of a slot that is about to leave."""

    def __init__(self, keeper: Keeper) -> None:
        self.actions: list[Action] = []
        self.leaving: tuple[ModelSlot, Segment] | None = None
        self._keeper = keeper

    @property
    def step(self) -> int:
        """The step that the rank is in."""
        return self._keeper.step

    def add(self, action: Action) -> None:
        """Note an action."""
        self.actions.append(action)


def as_rows(ids: NDArray[np.integer]) -> Rows:
    """Ids as a tuple."""
    return tuple(int(row) for row in ids)


class ModelSlot(GradientSlot):
    """A slot that notes what is written to it, sent from it and looked at in it."""

    def __init__(self, rows: int, layout: ColumnLayout, number: int, notes: Notes) -> None:
        super().__init__(rows, layout)
        self.number, self._notes = number, notes

    def partition(self, specs: Sequence[SegmentSpec]) -> None:
        """See GradientSlot."""
        self._notes.add(Clear(step=self._notes.step, slot=self.number))
        super().partition(specs)

    def add(self, group: int, rows: Ids, gradient: Floats) -> None:
        """See GradientSlot."""
        sizes = tuple(float(g) for g in gradient[:, 0])
        self._notes.add(Write(step=self._notes.step, slot=self.number, group=group, rows=as_rows(rows), sizes=sizes))
        super().add(group, rows, gradient)

    def slice(self, segment: Segment) -> torch.Tensor:
        """See GradientSlot."""
        self._notes.leaving = (self, segment)
        return super().slice(segment)

    def norms(self, rows: Ids, layout: ColumnLayout, scale: float) -> Floats:
        """See GradientSlot."""
        self._notes.add(Inspect(step=self._notes.step, slot=self.number, rows=as_rows(rows)))
        return super().norms(rows, layout, scale)

    def dense(self) -> Floats:
        """See GradientSlot."""
        rows = tuple(range(self.row_count))
        self._notes.add(Inspect(step=self._notes.step, slot=self.number, rows=rows))
        return super().dense()

    def elements(self, segment: Segment) -> tuple[tuple[int, int], ...]:
        """(group, row) of a segment's payload, in its order."""
        inside = [
            (int(offset), group, row)
            for group, offsets in enumerate(self.offsets)
            for row, offset in enumerate(offsets)
            if segment.start <= offset < segment.stop
        ]
        return tuple((group, row) for _, group, row in sorted(inside))


class ModelLedger(Ledger):
    """A ledger of noting slots."""

    def __init__(self, ring: int, notes: Notes) -> None:
        super().__init__(ring)
        self._notes = notes

    def resize(self, rows: int, layout: ColumnLayout) -> None:
        """See Ledger."""
        super().resize(rows, layout)
        self._slots = [ModelSlot(rows, layout, number, self._notes) for number in range(self.ring)]


class ModelTable(ParameterTable):
    """A table whose values stay, but which counts how often each row has moved: `moved`, int64 [N]."""

    def __init__(self, rows: int, notes: Notes, *, selective: bool) -> None:
        super().__init__(torch.zeros((rows, LAYOUT.columns)), LAYOUT, selective=selective)
        self.moved = np.zeros(rows, np.int64)
        self._notes = notes

    def apply_gradient(self, update: Update, ids: Ids, lo: int, hi: int, slot: Slot) -> None:
        """See ParameterTable."""
        self._note("update", update, ids, slot, lo, hi)
        self.moved[ids] += lo == 0

    def apply_zero(self, update: Update, ids: Ids) -> None:
        """See ParameterTable."""
        self._note("zero", update, ids, None)
        self.moved[ids] += 1

    def apply_correction(self, update: Update, ids: Ids, slot: Slot) -> None:
        """See ParameterTable."""
        self._note("correct", update, ids, slot)

    def advance(self, before: Update, slot: Slot, update: Update, ids: Ids) -> None:
        """See ParameterTable."""
        self.apply_correction(before, ids, slot)
        self.apply_zero(update, ids)

    def _note(self, kind: str, update: Update, ids: Ids, slot: Slot | None, lo: int = 0, hi: int = _GROUPS) -> None:
        number = slot.number if isinstance(slot, ModelSlot) else None
        if len(ids):
            rows = as_rows(ids)
            step = self._notes.step
            self._notes.add(Apply(step=step, kind=kind, t=update.t, rows=rows, lo=lo, hi=hi, slot=number))


@dataclass
class ModelFrame:
    """A view on its way through a step."""

    view: int
    rows: Ids
    visible: NDArray[np.bool_]
    sizes: Floats
    fragments: int

    @property
    def active(self) -> NDArray[np.bool_]:
        """Rows with a gradient, [M]."""
        return self.visible & (self.sizes > 0)


class ModelRecipe:
    """See `odin.recipe.Recipe`."""

    kinds: Mapping[str, slice] = MappingProxyType({"geometry": slice(0, 1), "colour": slice(1, 2)})

    def __init__(self, scenario: Scenario, notes: Notes) -> None:
        self._moving = ModelTable(scenario.rows, notes, selective=scenario.selective)
        self.table: ParameterTable = self._moving
        self.splittable = scenario.splittable
        self._scenario, self._notes = scenario, notes
        self._error = 1.0

    def scope(self, views: Sequence[int], inflation: Inflation) -> NDArray[np.uint64]:
        """What the views may touch while each row moves as often as `inflation` allows for."""
        further = np.round(inflation.shift[inflation.level]).astype(np.int64)
        return pack(np.stack([self._scenario.touches(view, self._moving.moved + further) for view in views]))

    def displacement(self, step: int, bound: float) -> tuple[float, float]:
        """One move per update."""
        return 1.0, 0.0

    def project(self, view: int, rows: Ids, keeper: Keeper) -> ModelFrame:
        """Read the geometry of `rows`; all of it where the renderer cannot be split."""
        touched = self._scenario.touches(view, self._moving.moved)
        missed = as_rows(np.setdiff1d(np.flatnonzero(touched), rows))
        hi = 1 if self.splittable else _GROUPS
        self._notes.add(Read(step=self._notes.step, view=view, rows=as_rows(rows), lo=0, hi=hi, missed=missed))
        sizes = np.array([self._scenario.gradient(view, int(row)) for row in rows], np.float32)
        return ModelFrame(view, rows, touched[rows], sizes, int(sizes.sum()))

    def render(self, frame: ModelFrame, keeper: Keeper) -> float:
        """Read colours."""
        if self.splittable:
            self._notes.add(Read(step=self._notes.step, view=frame.view, rows=as_rows(frame.rows), lo=1, hi=_GROUPS))
        return 0.0

    def backward_colours(self, frame: ModelFrame) -> Floats:
        """No size: norms are those of the geometry."""
        return np.zeros((len(frame.rows), 1), np.float32)

    def backward_geometry(self, frame: ModelFrame) -> Floats:
        """The scenario's sizes at rows that the view touches."""
        return (frame.visible * frame.sizes * self._error)[:, None].astype(np.float32)

    @contextmanager
    def unobserved(self) -> Iterator[None]:
        """Where audits are to fail, a recomputed gradient is twice as large."""
        self._error = 2.0 if self._scenario.fails else 1.0
        yield
        self._error = 1.0

    def pixel_change(self, a: ModelFrame, b: ModelFrame) -> float:
        """There are no pixels."""
        return 0.0

    def published(self, step: int) -> None:
        """Note it."""
        self._notes.add(Publish(step=self._notes.step, published=step))

    def learning_rates(self, step: int) -> NDArray[np.float64]:
        """The same everywhere."""
        return np.ones(LAYOUT.columns)

    def events_after(self, step: int) -> Event:
        """Of the scenario."""
        return self._scenario.event(step)

    def restructure(self, step: int, events: Event, version: int, reduce: Reduce, keeper: Keeper) -> None:
        """Rows stay the same; a densification sums its statistics over ranks first."""
        self._notes.add(Restructure(step=step))
        if Event.DENSIFY in events:
            reduce(torch.zeros(self._scenario.rows, dtype=torch.int64))
