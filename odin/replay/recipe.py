"""A recipe, a table and slots without numbers: they answer with what a trajectory recorded.

Sums run over tensors without storage (`meta`), so a collective has its size and its place on the link, nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from types import MappingProxyType

import numpy as np
import torch
from numpy.typing import NDArray

from odin.inflation import Inflation
from odin.keeper import Keeper
from odin.layout import ColumnLayout
from odin.ledger import Ledger
from odin.phases import Phase
from odin.plan import Plan
from odin.recipe import Event, Recipe, Reduce
from odin.replay.trajectory import Bits, Trajectory
from odin.rows import Update
from odin.segments import SegmentSpec
from odin.slot import GradientSlot, Segment, Slot
from odin.table import ParameterTable

Ids = NDArray[np.int32]
META = torch.device("meta")


class ReplaySlot(GradientSlot):
    """A slot that only knows where its segments begin and end."""

    def __init__(self, rows: int, layout: ColumnLayout) -> None:
        self.layout, self.row_count = layout, rows
        self.tensor = torch.empty(rows * layout.columns, dtype=torch.float32, device=META)
        self.segments: tuple[Segment, ...] = ()

    def partition(self, specs: Sequence[SegmentSpec]) -> None:
        """See GradientSlot; sizes are checked, places of rows are not kept."""
        segments, start = [], 0
        for spec in specs:
            size = sum(len(b.rows) * sum(self.layout.groups[g].width for g in b.groups) for b in spec.blocks)
            segments.append(Segment(spec=spec, start=start, stop=start + size))
            start += size
        if start != self.tensor.numel():
            raise AssertionError(f"segments cover {start} of {self.tensor.numel()} elements of the slot")
        self.segments = tuple(segments)

    def add(self, group: int, rows: Ids, gradient: object) -> None:
        """There is nothing to add."""

    def add_colours(self, rows: Ids, gradient: object) -> None:
        """There is nothing to add."""


class ReplayLedger(Ledger):
    """A ledger of such slots."""

    def resize(self, rows: int, layout: ColumnLayout) -> None:
        """See Ledger."""
        self.require_flushed()
        self._slots = [ReplaySlot(rows, layout) for _ in range(self.ring)]


class ReplayTable(ParameterTable):
    """A table that only knows how many rows it has."""

    def __init__(self, rows: int, layout: ColumnLayout, *, selective: bool, hold: int = 0) -> None:
        super().__init__(torch.zeros((0, layout.columns)), layout, selective=selective, hold=hold)
        self.resize(rows)

    def resize(self, rows: int) -> None:
        """So many rows from now on."""
        self._rows = rows
        self.every_row = np.arange(rows, dtype=np.int32)

    def __len__(self) -> int:
        return self._rows if hasattr(self, "_rows") else 0

    def apply_gradient(self, update: Update, ids: Ids, lo: int, hi: int, slot: Slot) -> None:
        """There are no values."""

    def apply_zero(self, update: Update, ids: Ids) -> None:
        """There are no values."""

    def apply_correction(self, update: Update, ids: Ids, slot: Slot) -> None:
        """There are no values."""

    def advance(self, before: Update, slot: Slot, update: Update, ids: Ids) -> None:
        """There are no values."""


@dataclass(kw_only=True)
class ReplayFrame:
    """A view on its way through a step."""

    view: int
    rows: Ids
    fragments: int
    visible: NDArray[np.bool_]
    active: NDArray[np.bool_]


class ReplayRecipe:
    """See `odin.recipe.Recipe`; `inner` answers what does not depend on values (learning rates, events, bounds)."""

    kinds: Mapping[str, slice] = MappingProxyType({})

    def __init__(self, inner: Recipe, plan: Plan, trajectory: Trajectory, keeper: Keeper) -> None:
        self._inner, self._plan, self._trajectory, self._keeper = inner, plan, trajectory, keeper
        table = inner.table
        hold = 0 if table.held is None else table.held.every
        self._replayed = ReplayTable(trajectory.rows, table.layout, selective=table.selective, hold=hold)
        self.table: ParameterTable = self._replayed
        self.splittable = inner.splittable
        self._scoped = -1

    def scope(self, views: Sequence[int], inflation: Inflation) -> Bits:
        """Recorded scopes of the next step that has none yet, or recorded culls of the views of this step."""
        following = self._scoped + 1
        own = len(views) == self._plan.views_per_unit
        if not own or (self._plan.ranks == 1 and following in self._trajectory.scopes and inflation.shift.any()):
            self._scoped = following
            return self._trajectory.scopes[following]
        return np.stack([self._trajectory.culls[self._keeper.step, int(view)] for view in views])

    def displacement(self, step: int, bound: float) -> tuple[float, float]:
        """See Recipe."""
        return self._inner.displacement(step, bound)

    def project(self, view: int, rows: Ids, keeper: Keeper) -> ReplayFrame:
        """The phases of a projection of so many rows."""
        work = self._trajectory.views[keeper.step, view]
        with keeper.phase(Phase.PROJECT, rows=len(rows)):
            pass
        with keeper.phase(Phase.BIN, rows=len(rows)) as done:
            done.entries = work.entries
        none = np.zeros(len(rows), np.bool_)
        return ReplayFrame(view=view, rows=rows, fragments=work.fragments, visible=none, active=none)

    def render(self, frame: ReplayFrame, keeper: Keeper) -> float:
        """The phases of a rendering, and the recorded loss."""
        key = keeper.step, frame.view
        work = self._trajectory.views[key]
        with keeper.phase(Phase.COLOUR, rows=len(frame.rows)):
            pass
        for phase in (Phase.BLEND, Phase.LOSS, Phase.BLEND_BACKWARD):
            rows = 0 if phase is Phase.LOSS else len(frame.rows)
            with keeper.phase(phase, rows=rows, pixels=work.pixels) as done:
                if phase is not Phase.LOSS:
                    done.entries, done.fragments = work.entries, work.fragments
        return self._trajectory.losses[key]

    def backward_colours(self, frame: ReplayFrame) -> NDArray[np.float32]:
        """Nothing."""
        return np.empty((0, 0), np.float32)

    backward_geometry = backward_colours

    @contextmanager
    def unobserved(self) -> Iterator[None]:
        """There are no statistics."""
        yield

    def pixel_change(self, a: ReplayFrame, b: ReplayFrame) -> float:
        """There are no pixels."""
        return 0.0

    def published(self, step: int) -> None:
        """Nothing depends on it."""

    def learning_rates(self, step: int) -> NDArray[np.float64]:
        """See Recipe."""
        return self._inner.learning_rates(step)

    def events_after(self, step: int) -> Event:
        """See Recipe."""
        return self._inner.events_after(step)

    def restructure(self, step: int, events: Event, version: int, reduce: Reduce, keeper: Keeper) -> None:
        """The collectives and phases of the events, then the recorded number of rows."""
        for done in self._trajectory.events[step]:
            if done.phase is None:
                reduce(torch.empty(done.shape, dtype=torch.int64, device=META))
                continue
            assert done.category is not None
            with keeper.counted_as(done.category), keeper.phase(done.phase) as work:
                for name, amount in asdict(done.work).items():
                    setattr(work, name, amount)
        self._replayed.resize(self._trajectory.grown[step])
