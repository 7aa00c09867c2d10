"""The parameter table Θ with its Adam moments: what every rank holds a replica of.

Legend: N primitives, D columns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from odin.held import Held, HeldGroup, Reduced
from odin.layout import ColumnLayout
from odin.memory import Holding, MemoryCategory
from odin.rows import (
    ADAM,
    AdamConstants,
    Moments,
    Rows,
    Update,
    apply_advance,
    apply_correction,
    apply_gradient,
    apply_zero,
)
from odin.slot import GradientSlot, Slot

T = TypeVar("T")


class ParameterTable:
    """Parameters and moments, each float32 [N, D]; `t` counts optimizer steps applied or launched.

    evidence:  float32 [N], last published gradient norm of each row, NaN where there is none; None until an arm
               asks for it (`keep_evidence`)
    selective: the recipe's optimizer is selective Adam (visible rows only, no bias correction)
    host_ahead: the host is ahead of what computes on the table, so that looking at a value would stop it. Values that
               a step depends on are then asked for a step before they are needed (`odin.arriving`)
    adam:      constants of its optimizer
    held:      the last column group if it is applied every few steps only (`hold`: how many), else None
    """

    host_ahead = False
    adam: AdamConstants = ADAM

    def __init__(
        self, parameters: torch.Tensor, layout: ColumnLayout, *, selective: bool = False, hold: int = 0
    ) -> None:
        if hold and selective:
            raise ValueError("selective Adam updates all columns of a row together; no group of it can be held")
        self.layout, self.selective = layout, selective
        self.held: Held | None = self._make_held(hold) if hold else None
        self.t = 0
        self.evidence: NDArray[np.float32] | None = None
        self.replace(parameters, torch.zeros_like(parameters), torch.zeros_like(parameters))

    def replace(
        self,
        parameters: torch.Tensor,
        m: torch.Tensor,
        v: torch.Tensor,
        source: NDArray[np.int64] | None = None,
    ) -> None:
        """Install new storage after a structural event; all three float32 [N, D].

        source: int64 [N], the old row that each row continues, -1 for none; without it all evidence is lost
        """
        self.parameters = parameters.detach().contiguous()
        self.m = m.detach().contiguous()
        self.v = v.detach().contiguous()
        self._hold()
        self.every_row: NDArray[np.int32] = np.arange(len(parameters), dtype=np.int32)
        if self.held is not None:
            self.held.clear(len(parameters))
        if self.evidence is not None:
            old = self.evidence
            self.evidence = np.full(len(parameters), np.nan, np.float32)
            if source is not None:
                self.evidence[source >= 0] = old[source[source >= 0]]

    def _make_held(self, every: int) -> Held:
        """The held group, where the table is."""
        return HeldGroup(self.layout, every)

    def _hold(self) -> None:
        """New storage is in place."""
        self._moments = Moments(p=self.parameters.numpy(), m=self.m.numpy(), v=self.v.numpy())

    @property
    def moments(self) -> Moments:
        """Parameters and moments as numpy arrays: the table's own storage here, a copy where the table is on a device
        (blocks; at flushed state only)."""
        return self._moments

    def values(self) -> NDArray[np.float32]:
        """Parameters as a numpy array [N, D], as `moments` has them."""
        return self._moments.p

    def make_slot(self, rows: int, layout: ColumnLayout) -> Slot:
        """A gradient slot where the table is."""
        return GradientSlot(rows, layout)

    def copy(self) -> ParameterTable:
        """Another table in the same state, of its own."""
        hold = 0 if self.held is None else self.held.every
        other = self._like(self.parameters.clone(), self.layout, selective=self.selective, hold=hold)
        if self.held is not None and other.held is not None:
            other.held.restore(self.held.t, self.held.host_sums())
        other.m.copy_(self.m)
        other.v.copy_(self.v)
        other.adam = self.adam
        other.t, other.evidence = self.t, None if self.evidence is None else self.evidence.copy()
        return other

    def _like(self, parameters: torch.Tensor, layout: ColumnLayout, *, selective: bool, hold: int) -> ParameterTable:
        """A fresh table where this one is."""
        return ParameterTable(parameters, layout, selective=selective, hold=hold)

    def once(self, compute: Callable[[], T]) -> T:
        """A value that all replicas of the table compute alike, bit for bit; where several of them live in one process
        it is computed once (`odin.shared`). Nobody may change it."""
        return compute()

    def keep_evidence(self) -> NDArray[np.float32]:
        """Start keeping `evidence`, and return it."""
        if self.evidence is None:
            self.evidence = np.full(len(self), np.nan, np.float32)
        return self.evidence

    def bind(self, step: int, lr: NDArray[np.float64], scale: float) -> Update:
        """The update of a step of the plan, at learning rates `lr` [D]; counts it. scale: 1 / global batch."""
        self.t += 1
        return Update(
            t=self.t,
            lr=lr,
            scale=scale,
            visible=self.visible_group[0] if self.selective else None,
            held=None if self.held is None else self.held.bind(step),
            adam=self.adam,
        )

    def groups_read(self, step: int) -> int:
        """How many of the first column groups a reader of the next step may have to wait for."""
        held_back = self.held is not None and not self.held.applies(step)
        return len(self.layout.groups) - held_back

    # The ways in which a row moves while training; nothing else writes to the table between structural events.

    def apply_gradient(self, update: Update, ids: NDArray[np.int32], lo: int, hi: int, slot: Slot) -> None:
        """Adam step of groups lo…hi-1 of rows `ids` (int32 [R], each at most once) by the slot's reduced gradient."""
        if self.held is not None and hi > self.held.group:
            self.held.gradient(self._moments, update, ids, self._reduced(slot))
            hi = self.held.group
        if lo < hi:
            rows = Rows(ids=ids, layout=self.layout, lo=lo, hi=hi)
            apply_gradient(self._moments, update, rows, slot.values, slot.offsets)

    def apply_zero(self, update: Update, ids: NDArray[np.int32]) -> None:
        """Zero-gradient Adam step of rows `ids`, int32 [R]."""
        if self.held is not None:
            self.held.zero(self._moments, update, ids)
        apply_zero(self._moments, update, self._whole(ids))

    def apply_correction(self, update: Update, ids: NDArray[np.int32], slot: Slot) -> None:
        """Turn the zero-gradient step that rows `ids` (int32 [R]) have taken into the real one."""
        if self.held is not None:
            self.held.correct(self._moments, update, ids, self._reduced(slot))
        apply_correction(self._moments, update, self._whole(ids), slot.values, slot.offsets)

    def advance(self, before: Update, slot: Slot, update: Update, ids: NDArray[np.int32]) -> None:
        """`apply_correction` of `before` by the slot's reduced gradient, then `apply_zero` of its successor `update`,
        in one pass over rows `ids`. A held group takes its steps apart, with the sums of `before` cleared between them
        where it was applied, as `published` does."""
        if self.held is not None:
            self.held.correct(self._moments, before, ids, self._reduced(slot))
            self.held.published(before)
            self.held.zero(self._moments, update, ids)
        apply_advance(self._moments, before, update, self._whole(ids), slot.values, slot.offsets)

    def zero_stepped(self, update: Update, ids: NDArray[np.int32]) -> torch.Tensor:
        """Values that rows `ids` (int32 [R]) would have after the zero-gradient step of `update`, float32 [R, D], in
        storage of their own; the table stays as it is. No column may be held."""
        assert self.held is None
        state = self.moments
        copy = Moments(p=state.p[ids], m=state.m[ids], v=state.v[ids])
        apply_zero(copy, update, self._whole(np.arange(len(ids), dtype=np.int32)))
        return torch.from_numpy(copy.p)

    def remember(self, ids: NDArray[np.int32], slot: Slot, scale: float) -> None:
        """Enter the reduced gradient's norm times `scale` into `evidence`, of those of rows `ids` that have one."""
        evidence, norms = self.keep_evidence(), slot.norms(ids, self.layout, scale)
        evidence[ids[norms > 0]] = norms[norms > 0]

    def published(self, update: Update) -> None:
        """The update is applied to every row, whatever of it was applied when."""
        if self.held is not None:
            self.held.published(update)

    def _whole(self, ids: NDArray[np.int32]) -> Rows:
        """All groups that move in every step."""
        groups = len(self.layout.groups) if self.held is None else self.held.group
        return Rows(ids=ids, layout=self.layout, lo=0, hi=groups)

    def _reduced(self, slot: Slot) -> Reduced:
        assert self.held is not None
        return Reduced(values=slot.values, offsets=slot.offsets[self.held.group])

    @property
    def slot_layout(self) -> ColumnLayout:
        """Columns of a gradient slot: the table's, and the visible column of selective Adam."""
        return self.layout.with_visible() if self.selective else self.layout

    @property
    def visible_group(self) -> tuple[int, ...]:
        """(index of the visible column's group,) in the slot, or ()."""
        return (len(self.layout.groups),) if self.selective else ()

    def __len__(self) -> int:
        return int(self.parameters.shape[0])

    def holdings(self) -> Iterator[Holding]:
        """What the table keeps (`odin.memory`)."""
        yield MemoryCategory.PARAMETERS, self.parameters
        yield MemoryCategory.MOMENTS, self.m
        yield MemoryCategory.MOMENTS, self.v
        yield MemoryCategory.ROW_LISTS, self.every_row
        if self.held is not None:
            yield MemoryCategory.MOMENTS, self.held.sums
        if self.evidence is not None:
            yield MemoryCategory.EVIDENCE, self.evidence

    def digest(self) -> str:
        """sha256 over parameters, moments and counter; equal on all ranks, and for all exact arms."""
        h = hashlib.sha256()
        for tensor in (self.parameters, self.m, self.v):
            h.update(tensor.cpu().numpy().tobytes())
        h.update(f"{self.t} {len(self)}".encode())
        if self.held is not None:
            h.update(f" {self.held.t}".encode() + self.held.host_sums().tobytes())
        return h.hexdigest()
