"""Two ways to keep the units in flight apart, with the same operations: Odin's and full replication.

Operations of one unit, after the numbered arrows of Fig. 7 (Fig. 16 names none):

    operation  arrow  Shadow Graph (this code)                         full replication
    alias      1      a whole-table leaf on shared storage             clone parameters and moments, zero a gradient
    view       1, 2   row list of the scope, private gather of rows    the same from a clone made as for alias
    reuse      –      zero the slot, lay out its segments              zero the unit's gradient
    stage      3      add the gradient of the rows to the slot         autograd's dense gradient into the unit's own
    refresh    6      nothing: the table is updated in place           copy parameters and moments to the unit
    commit     4, 5   Adam kernel on the scope, zero step on the rest  the same kernel on all rows, then copy back

`alias` is for renderers that take the whole table; the reference pipelines gather (`view`). What both sides do alike
(gather, row kernel) is in both numbers; rendering and its backward are in neither. Both leave the same bits in the
table, which a test checks.

Legend: N rows, R rows of a unit's scope.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from odin.layout import ColumnGroup, ColumnLayout
from odin.memory import Allocations, Array
from odin.rows import Moments, Rows, Update, apply_gradient, apply_zero
from odin.segments import Block, SegmentSpec
from odin.slot import GradientSlot
from odin.table import ParameterTable
from pipelines.columns import COLOUR, COLUMNS, GEOMETRY

LAYOUT = ColumnLayout(
    groups=(
        ColumnGroup(name="geometry", first=GEOMETRY.start, last=GEOMETRY.stop),
        ColumnGroup(name="colour", first=COLOUR.start, last=COLOUR.stop),
    )
)
RUN = 64  # rows; tables are in Morton order, so a scope is made of runs of neighbours
SLOTS = 2  # as the ledger's ring


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A unit's part. mask: its scope, bool [N]; rows and others: the ids in and outside it, int32; geometry, colour
    and whole: the gradient of its rows by column group and undivided, float32 [R, 11], [R, 48], [R, 59]."""

    mask: NDArray[np.bool_]
    rows: NDArray[np.int32]
    others: NDArray[np.int32]
    geometry: NDArray[np.float32]
    colour: NDArray[np.float32]
    whole: torch.Tensor


def make_units(rows: int, count: int, share: float, rng: np.random.Generator) -> list[Unit]:
    """Units with random scopes of about `share` of the rows. They share one gradient, cut to their length."""
    masks = [np.repeat(rng.random(-(-rows // RUN)) < share, RUN)[:rows] for _ in range(count)]
    whole = rng.standard_normal((max(int(m.sum()) for m in masks), COLUMNS), np.float32)
    geometry, colour = (np.ascontiguousarray(whole[:, part]) for part in (GEOMETRY, COLOUR))
    return [
        Unit(
            mask=mask,
            rows=np.flatnonzero(mask).astype(np.int32),
            others=np.flatnonzero(~mask).astype(np.int32),
            geometry=geometry[: mask.sum()],
            colour=colour[: mask.sum()],
            whole=torch.from_numpy(whole[: mask.sum()]),
        )
        for mask in masks
    ]


class UnitStates(ABC):
    """The states of units in flight over one table. Operations take a unit's number; commits come in that order."""

    def __init__(self, parameters: torch.Tensor, units: Sequence[Unit]) -> None:
        self.table = ParameterTable(parameters.clone(), LAYOUT)
        self.units = units
        self.views: list[tuple[NDArray[np.int32], torch.Tensor]] = []

    @abstractmethod
    def alias(self, number: int) -> None:
        """Give the unit a leaf over the whole table."""

    @abstractmethod
    def view(self, number: int) -> None:
        """Give the unit the rows of its scope, as part of its own autograd graph."""

    @abstractmethod
    def reuse(self, number: int) -> None:
        """Make room for the unit's gradient."""

    @abstractmethod
    def stage(self, number: int) -> None:
        """Put the unit's gradient there."""

    @abstractmethod
    def refresh(self, number: int) -> None:
        """Show the unit what was committed since it began."""

    @abstractmethod
    def commit(self, number: int) -> None:
        """Publish the unit's update to the table."""

    @abstractmethod
    def retire(self) -> None:
        """Let go of what `alias` and `view` made."""

    @abstractmethod
    def arrays(self, operation: str) -> Iterator[Array]:
        """What all units together hold for an operation."""

    def private_bytes(self, operation: str) -> int:
        """Bytes of `arrays` beyond the table; gradients count for `stage`."""
        allocations = Allocations()
        for _, array in self.table.holdings():
            allocations.add(array)
        return sum(allocations.add(array) for array in self.arrays(operation))

    def _read(self, number: int, source: torch.Tensor) -> torch.Tensor:
        rows = np.flatnonzero(self.units[number].mask).astype(np.int32)
        gathered = source[torch.from_numpy(rows)]
        self.views.append((rows, gathered))
        return gathered

    def _update(self) -> Update:
        self.table.t += 1
        return Update(t=self.table.t, lr=np.full(COLUMNS, 1e-3), scale=1.0)

    def _viewed(self) -> Iterator[Array]:
        for view in self.views:
            yield from view


def _rows(ids: NDArray[np.int32]) -> Rows:
    return Rows(ids=ids, layout=LAYOUT, lo=0, hi=len(LAYOUT.groups))


class ShadowStates(UnitStates):
    """Shared table, private views, gradients staged in a ring of two slots."""

    def __init__(self, parameters: torch.Tensor, units: Sequence[Unit]) -> None:
        super().__init__(parameters, units)
        self.slots = [GradientSlot(len(parameters), LAYOUT) for _ in range(SLOTS)]
        self.leaves: list[torch.Tensor] = []

    def alias(self, number: int) -> None:
        """A leaf of its own on the table's storage: no copy, own autograd graph and version counter."""
        self.leaves.append(torch.nn.Parameter(self.table.parameters.data))

    def view(self, number: int) -> None:
        """Row list and gather, as the reference pipelines do."""
        self._read(number, self.table.parameters).requires_grad_()

    def reuse(self, number: int) -> None:
        """The slot of the step before last."""
        unit, both = self.units[number], (0, 1)
        urgent = SegmentSpec(name="urgent", blocks=(Block(rows=unit.rows, groups=both),))
        rest = SegmentSpec(name="rest", blocks=(Block(rows=unit.others, groups=both),))
        self.slots[number % SLOTS].partition([urgent, rest])

    def stage(self, number: int) -> None:
        """Colours, then geometry, straight to their place in the segments."""
        unit, slot = self.units[number], self.slots[number % SLOTS]
        slot.add(1, unit.rows, unit.colour)
        slot.add(0, unit.rows, unit.geometry)

    def refresh(self, number: int) -> None:
        """Units read the table itself."""

    def commit(self, number: int) -> None:
        """Split publication (D§5)."""
        unit, slot, update = self.units[number], self.slots[number % SLOTS], self._update()
        apply_gradient(self.table.moments, update, _rows(unit.rows), slot.values, slot.offsets)
        apply_zero(self.table.moments, update, _rows(unit.others))

    def retire(self) -> None:
        """Views and leaves."""
        self.views, self.leaves = [], []

    def arrays(self, operation: str) -> Iterator[Array]:
        """alias: nothing beyond the table; view: lists and gathered rows; stage: the ring, for any number of units."""
        if operation == "alias":
            yield from self.leaves
        elif operation == "view":
            yield from self._viewed()
        elif operation == "stage":
            for slot in self.slots:
                yield from (slot.tensor, slot.offsets)


@dataclass(kw_only=True)
class Replica:
    """A unit's own parameters (the leaf of its graph, its gradient in `.grad`) and moments."""

    leaf: torch.Tensor
    m: torch.Tensor
    v: torch.Tensor
    moments: Moments = field(init=False)

    def __post_init__(self) -> None:
        self.moments = Moments(p=self.leaf.detach().numpy(), m=self.m.numpy(), v=self.v.numpy())

    @property
    def gradient(self) -> torch.Tensor:
        """Float32 [N, D]."""
        assert self.leaf.grad is not None
        return self.leaf.grad


class ReplicatedStates(UnitStates):
    """Parameters, moments and gradient of its own for every unit; the table is what commits are copied back to.

    pooled: states of retired units are overwritten instead of allocated anew, which saves the pages' first touch
    """

    def __init__(self, parameters: torch.Tensor, units: Sequence[Unit], *, pooled: bool = False) -> None:
        super().__init__(parameters, units)
        self.pooled = pooled
        self.replicas: list[Replica] = []
        first = np.array([g.first for g in LAYOUT.groups])
        self._dense = np.ascontiguousarray(first[:, None] + COLUMNS * np.arange(len(parameters)))

    def alias(self, number: int) -> None:
        """A whole state; its leaf is the view."""
        if number < len(self.replicas):
            self.refresh(number)
            self.reuse(number)
            return
        table = self.table
        leaf = torch.nn.Parameter(table.parameters.clone())
        leaf.grad = torch.zeros_like(leaf)
        self.replicas.append(Replica(leaf=leaf, m=table.m.clone(), v=table.v.clone()))

    def view(self, number: int) -> None:
        """A whole state, and the rows of its scope read from it."""
        self.alias(number)
        self._read(number, self.replicas[number].leaf)

    def reuse(self, number: int) -> None:
        """Zero, as before every backward."""
        self.replicas[number].gradient.zero_()

    def stage(self, number: int) -> None:
        """Autograd scatters the rows' gradient into a dense one and adds it to the unit's."""
        torch.autograd.backward([self.views[number][1]], [self.units[number].whole])

    def refresh(self, number: int) -> None:
        """Without this, committing would undo what earlier units committed."""
        replica = self.replicas[number]
        replica.leaf.data.copy_(self.table.parameters)
        replica.m.copy_(self.table.m)
        replica.v.copy_(self.table.v)

    def commit(self, number: int) -> None:
        """The unit's optimizer steps the unit's state; the result becomes the table's."""
        replica, table = self.replicas[number], self.table
        gradient = replica.gradient.numpy().reshape(-1)
        apply_gradient(replica.moments, self._update(), _rows(table.every_row), gradient, self._dense)
        table.parameters.copy_(replica.leaf.data)
        table.m.copy_(replica.m)
        table.v.copy_(replica.v)

    def retire(self) -> None:
        """Views, and states unless they are pooled."""
        self.views = []
        if not self.pooled:
            self.replicas = []

    def arrays(self, operation: str) -> Iterator[Array]:
        """alias, view: the states; stage: their gradients."""
        for replica in self.replicas:
            if operation in ("alias", "view"):
                yield from (replica.leaf.detach(), replica.m, replica.v)
            elif operation == "stage":
                yield replica.gradient
        if operation == "view":
            yield from self._viewed()
