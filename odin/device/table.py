"""The parameter table on a device: `odin.table.ParameterTable` with the device's row kernels and slots.

Rows are named by the host (int32 arrays of a cut); they are copied to the device without the host waiting.

Legend: N rows, D columns, R rows of one call.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from odin.device.held import DeviceHeldGroup, DeviceReduced
from odin.device.rows import DeviceMoments, DeviceRows, apply_advance, apply_correction, apply_gradient, apply_zero
from odin.device.slot import DeviceSlot
from odin.device.upload import to_device
from odin.held import Held
from odin.layout import ColumnLayout
from odin.rows import Moments, Update
from odin.slot import Slot
from odin.table import ParameterTable


class DeviceTable(ParameterTable):
    """Parameters and moments on the device of `parameters`, each float32 [N, D]."""

    host_ahead = True

    def __init__(
        self, parameters: torch.Tensor, layout: ColumnLayout, *, selective: bool = False, hold: int = 0
    ) -> None:
        self.device = parameters.device
        super().__init__(parameters, layout, selective=selective, hold=hold)

    def _like(self, parameters: torch.Tensor, layout: ColumnLayout, *, selective: bool, hold: int) -> DeviceTable:
        return DeviceTable(parameters, layout, selective=selective, hold=hold)

    def _make_held(self, every: int) -> Held:
        return DeviceHeldGroup(self.layout, every, self.device)

    def _hold(self) -> None:
        self._state = DeviceMoments(p=self.parameters, m=self.m, v=self.v)
        self._every = torch.arange(len(self.parameters), device=self.device)

    @property
    def moments(self) -> Moments:
        """Copies on the host. Blocks."""
        p, m, v = (tensor.cpu().numpy() for tensor in (self.parameters, self.m, self.v))
        return Moments(p=p, m=m, v=v)

    def values(self) -> NDArray[np.float32]:
        """A copy of the parameters on the host. Blocks."""
        values: NDArray[np.float32] = self.parameters.cpu().numpy()
        return values

    def make_slot(self, rows: int, layout: ColumnLayout) -> Slot:
        """A gradient slot on the device."""
        return DeviceSlot(rows, layout, self.device, self.ids)

    def ids(self, rows: NDArray[np.int32]) -> torch.Tensor:
        """Rows (int32 [R]) as int64 [R] on the device; `every_row` lies there already."""
        return self._every if rows is self.every_row else to_device(rows, self.device, torch.int64)

    def apply_gradient(self, update: Update, ids: NDArray[np.int32], lo: int, hi: int, slot: Slot) -> None:
        """Adam step of groups lo…hi-1 of rows `ids` by the slot's reduced gradient."""
        rows = DeviceRows(ids=self.ids(ids), layout=self.layout, lo=lo, hi=hi)
        if self.held is not None and hi > self.held.group:
            self.held.gradient(self._state, update, rows.ids, self._held_part(slot))
            rows = replace(rows, hi=self.held.group)
        if rows.lo < rows.hi:
            apply_gradient(self._state, update, rows, slot.values, slot.offsets)

    def apply_zero(self, update: Update, ids: NDArray[np.int32]) -> None:
        """Zero-gradient Adam step of rows `ids`."""
        rows = self._rows(ids)
        if self.held is not None:
            self.held.zero(self._state, update, rows.ids)
        apply_zero(self._state, update, rows)

    def apply_correction(self, update: Update, ids: NDArray[np.int32], slot: Slot) -> None:
        """Turn the zero-gradient step that rows `ids` have taken into the real one."""
        rows = self._rows(ids)
        if self.held is not None:
            self.held.correct(self._state, update, rows.ids, self._held_part(slot))
        apply_correction(self._state, update, rows, slot.values, slot.offsets)

    def advance(self, before: Update, slot: Slot, update: Update, ids: NDArray[np.int32]) -> None:
        """See ParameterTable."""
        rows = self._rows(ids)
        if self.held is not None:
            self.held.correct(self._state, before, rows.ids, self._held_part(slot))
            self.held.published(before)
            self.held.zero(self._state, update, rows.ids)
        apply_advance(self._state, before, update, rows, slot.values, slot.offsets)

    def zero_stepped(self, update: Update, ids: NDArray[np.int32]) -> torch.Tensor:
        """See ParameterTable."""
        assert self.held is None
        copy = self._state.gather(self.ids(ids), slice(0, self.layout.columns))
        every = torch.arange(len(ids), device=self.device)
        apply_zero(copy, update, DeviceRows(ids=every, layout=self.layout, lo=0, hi=len(self.layout.groups)))
        return copy.p

    def _rows(self, ids: NDArray[np.int32]) -> DeviceRows:
        """All groups that move in every step."""
        groups = len(self.layout.groups) if self.held is None else self.held.group
        return DeviceRows(ids=self.ids(ids), layout=self.layout, lo=0, hi=groups)

    def _held_part(self, slot: Slot) -> DeviceReduced:
        assert self.held is not None
        return DeviceReduced(values=slot.values, offsets=slot.offsets[self.held.group])
