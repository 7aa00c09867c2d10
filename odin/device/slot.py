"""Gradient slot on a device: the partition, the segments and the bits of `odin.slot.GradientSlot`.

Legend: N rows, D columns, G groups, R rows of one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from odin.device.rows import elements
from odin.device.upload import to_device
from odin.layout import VISIBLE, ColumnLayout
from odin.memory import Holding, MemoryCategory
from odin.segments import SegmentSpec
from odin.slot import Segment

Ids = Callable[[NDArray[np.int32]], torch.Tensor]
"""Rows as int64 on the device, without the host waiting."""


@dataclass(frozen=True, kw_only=True)
class DeviceBlock:
    """Rows (int64 [R] on the device) whose columns of `groups` lie side by side. R is known to the host."""

    rows: torch.Tensor
    groups: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class DeviceSegmentSpec:
    """Blocks that travel together, in slot order."""

    blocks: tuple[DeviceBlock, ...]

    @classmethod
    def of(cls, spec: SegmentSpec, ids: Ids) -> DeviceSegmentSpec:
        """The same rows on a device; the host does not wait."""
        return cls(blocks=tuple(DeviceBlock(rows=ids(b.rows), groups=b.groups) for b in spec.blocks))


class DeviceSlot:
    """One step's gradient and communication buffer. `values` is float32 [N·D]; `offsets` is int64 [G, N].

    ids: brings rows to the device; by default each call copies them
    """

    def __init__(self, rows: int, layout: ColumnLayout, device: torch.device, ids: Ids | None = None) -> None:
        self.layout = layout
        self._ids = ids or partial(to_device, device=device, dtype=torch.int64)
        self.row_count = rows
        self.values = torch.zeros(rows * layout.columns, dtype=torch.float32, device=device)
        self.offsets = torch.zeros((len(layout.groups), rows), dtype=torch.int64, device=device)
        self.segments: tuple[Segment, ...] = ()

    def partition(self, specs: Sequence[SegmentSpec]) -> None:
        """Zero the slot and lay out segments in link order. They must cover every row of every group once."""
        self.values.zero_()
        segments, start = [], 0
        for spec in specs:
            begin = start
            for block in DeviceSegmentSpec.of(spec, self._ids).blocks:
                start = self._place(block, start)
            segments.append(Segment(spec=spec, start=begin, stop=start))
        if start != len(self.values):
            raise AssertionError(f"segments cover {start} of {len(self.values)} elements of the slot")
        self.segments = tuple(segments)

    def _place(self, block: DeviceBlock, start: int) -> int:
        """Lay out a block from element `start` on; where it ends."""
        stride = sum(self.layout.groups[g].width for g in block.groups)
        first = torch.arange(len(block.rows), device=self.values.device) * stride + start
        for g in block.groups:
            self.offsets[g].index_copy_(0, block.rows, first)
            first = first + self.layout.groups[g].width
        return start + stride * len(block.rows)

    def add(self, group: int, rows: torch.Tensor, gradient: torch.Tensor) -> None:
        """Add a view's gradient, float32 [R, width of group], at `rows` (int64 [R], each at most once).

        Read, add, write back: CUDA's atomic addition to global memory flushes denormals, which the CPU's does not.
        """
        index = elements(self.offsets[group], rows, gradient.shape[1])
        total = self.values.index_select(0, index).add_(gradient.reshape(-1))
        self.values.index_copy_(0, index, total)

    def add_colours(self, rows: torch.Tensor, gradient: torch.Tensor) -> None:
        """See Slot."""
        groups = [g for g in self.layout.groups[1:] if g.name != VISIBLE]
        parts = gradient.split([group.width for group in groups], dim=1)
        for number, part in enumerate(parts, start=1):
            self.add(number, rows, part)

    def mark(self, group: int, rows: torch.Tensor, visible: torch.Tensor) -> None:
        """Count a view in column `group` of the `rows` that it draws (`visible`, bool [R])."""
        self.add(group, rows, visible.float()[:, None])

    def norms(self, rows: NDArray[np.int32], layout: ColumnLayout, scale: float) -> NDArray[np.float32]:
        """‖g(p)‖ · scale of `rows` over the columns of `layout`, float32 [R], on the host. Blocks."""
        ids = self._ids(rows)
        index = [elements(self.offsets[g], ids, group.width) for g, group in enumerate(layout.groups)]
        squares = [self.values[i].view(len(rows), -1).double().square().sum(dim=1) for i in index]
        total: torch.Tensor = sum(squares[1:], squares[0])
        norms: NDArray[np.float32] = (total.sqrt() * scale).float().cpu().numpy()
        return norms

    def holdings(self, values: MemoryCategory = MemoryCategory.GRADIENT) -> Iterator[Holding]:
        """What the slot keeps (`odin.memory`); rows of segments are the host's."""
        yield values, self.values
        yield MemoryCategory.SLOT_OFFSETS, self.offsets
        for segment in self.segments:
            yield from segment.spec.holdings()

    def slice(self, segment: Segment) -> torch.Tensor:
        """The segment's elements, sharing storage."""
        return self.values[segment.start : segment.stop]

    def dense(self) -> torch.Tensor:
        """The gradient as a fresh [N, D] tensor in column order (reference for tests)."""
        every = torch.arange(self.row_count, device=self.values.device)
        groups = zip(self.layout.groups, self.offsets, strict=True)
        parts = [self.values[elements(offsets, every, group.width)].view(-1, group.width) for group, offsets in groups]
        return torch.cat(parts, dim=1)
