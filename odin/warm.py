"""Compile and cache the kernels of tables and slots before ranks or clocks start."""

from __future__ import annotations

import numpy as np
import torch

from odin.layout import ColumnGroup, ColumnLayout
from odin.segments import two_buckets
from odin.table import ParameterTable

_LAYOUT = ColumnLayout(
    groups=(ColumnGroup(name="geometry", first=0, last=1), ColumnGroup(name="colour", first=1, last=2))
)


def warm_up_rows() -> None:
    """Lay out, fill, apply and correct a gradient of two rows. Without it the first steps of an unpadded cell on a
    fresh cache would be seconds of compilation."""
    table = ParameterTable(torch.zeros(2, _LAYOUT.columns), _LAYOUT)
    slot = table.make_slot(len(table), table.slot_layout)
    slot.partition(two_buckets(table.every_row))
    for group in _LAYOUT.every_group:
        slot.add(group, table.every_row, np.zeros((2, 1), np.float32))
    update = table.bind(0, np.full(_LAYOUT.columns, 1e-3), 1.0)
    table.apply_gradient(update, table.every_row, 0, len(_LAYOUT.groups), slot)
    table.apply_zero(update, table.every_row)
    table.apply_correction(update, table.every_row, slot)
    table.advance(update, slot, update, table.every_row)
    table.remember(table.every_row, slot, 1.0)
