"""Gradient slot on a device: the partition, the segments and the bits of `odin.slot.GradientSlot`.

Legend: N rows, D columns, G groups, R rows of one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from odin.device.rows import elements
from odin.device.upload import to_device
from odin.layout import ColumnLayout
from odin.segments import SegmentSpec


@dataclass(frozen=True, kw_only=True)
class DeviceBlock:
    """Rows (int64 [R] on the device) whose columns of `groups` lie side by side. R is known to the host."""

    rows: torch.Tensor
    groups: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class DeviceSegmentSpec:
    """Blocks that travel together, in slot order."""

    name: str
    blocks: tuple[DeviceBlock, ...]

    @classmethod
    def of(cls, spec: SegmentSpec, device: torch.device) -> DeviceSegmentSpec:
        """The same rows on a device; the host does not wait."""
        blocks = (DeviceBlock(rows=to_device(b.rows, device, torch.int64), groups=b.groups) for b in spec.blocks)
        return cls(name=spec.name, blocks=tuple(blocks))


@dataclass(frozen=True, kw_only=True)
class DeviceSegment:
    """A laid-out segment: elements start…stop-1 of the slot."""

    spec: DeviceSegmentSpec
    start: int
    stop: int

    @property
    def name(self) -> str:
        """Name on the timeline, e.g. `urgent`."""
        return self.spec.name


class DeviceSlot:
    """One step's gradient and communication buffer. `values` is float32 [N·D]; `offsets` is int64 [G, N]."""

    def __init__(self, rows: int, layout: ColumnLayout, device: torch.device) -> None:
        self.layout = layout
        self.row_count = rows
        self.values = torch.zeros(rows * layout.columns, dtype=torch.float32, device=device)
        self.offsets = torch.zeros((len(layout.groups), rows), dtype=torch.int64, device=device)
        self.segments: tuple[DeviceSegment, ...] = ()

    def partition(self, specs: Sequence[DeviceSegmentSpec]) -> None:
        """Zero the slot and lay out segments in link order. They must cover every row of every group once."""
        self.values.zero_()
        segments, start = [], 0
        for spec in specs:
            begin = start
            for block in spec.blocks:
                start = self._place(block, start)
            segments.append(DeviceSegment(spec=spec, start=begin, stop=start))
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

    def slice(self, segment: DeviceSegment) -> torch.Tensor:
        """The segment's elements, sharing storage."""
        return self.values[segment.start : segment.stop]

    def dense(self) -> torch.Tensor:
        """The gradient as a fresh [N, D] tensor in column order (reference for tests)."""
        every = torch.arange(self.row_count, device=self.values.device)
        groups = zip(self.layout.groups, self.offsets, strict=True)
        parts = [self.values[elements(offsets, every, group.width)].view(-1, group.width) for group, offsets in groups]
        return torch.cat(parts, dim=1)
