"""Gradient slots: the [N, D] gradient of one step, stored in the order in which it travels.

A slot is one flat buffer. Its partition cuts it into segments, each a contiguous slice and one collective; a
segment holds some rows of some column groups. Because the partition is fixed before a step's first backward,
gradients are added straight to their place and a launch copies nothing (D§6 Segments).

Legend: N rows, D columns, G groups, R rows of one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

from odin.layout import VISIBLE, ColumnLayout
from odin.memory import Holding, MemoryCategory
from odin.segments import SegmentSpec


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A laid-out segment: elements start…stop-1 of the slot."""

    spec: SegmentSpec
    start: int
    stop: int

    @property
    def name(self) -> str:
        """Name on the timeline, e.g. `urgent`."""
        return self.spec.name


class Slot(Protocol):
    """What the policies need of a slot, wherever its values are; `GradientSlot` says what each call does. Rows, values
    and gradients are arrays or tensors of the place that the slot is in."""

    row_count: int
    segments: tuple[Segment, ...]
    values: Any
    offsets: Any

    def partition(self, specs: Sequence[SegmentSpec]) -> None:
        """Zero the slot and lay out segments in link order."""
        ...

    def add(self, group: int, rows: Any, gradient: Any) -> None:
        """Add a view's gradient."""
        ...

    def add_colours(self, rows: Any, gradient: Any) -> None:
        """Add a view's gradient of all colour columns."""
        ...

    def mark(self, group: int, rows: Any, visible: Any) -> None:
        """Count a view in the visible column of the rows that it draws."""
        ...

    def slice(self, segment: Segment) -> torch.Tensor:
        """The segment's elements, sharing storage."""
        ...

    def norms(self, rows: NDArray[np.int32], layout: ColumnLayout, scale: float) -> NDArray[np.float32]:
        """‖g(p)‖ · scale of rows, on the host."""
        ...

    def dense(self) -> Any:
        """The gradient in column order, [N, D]."""
        ...

    def holdings(self, values: MemoryCategory = MemoryCategory.GRADIENT) -> Iterator[Holding]:
        """What the slot keeps."""
        ...


MakeSlot = Callable[[int, ColumnLayout], Slot]
"""A slot for so many rows of these columns."""


@njit(nogil=True, cache=True)
def _place(offsets: NDArray, rows: NDArray, start: int, stride: int) -> None:
    for k in range(rows.shape[0]):
        offsets[rows[k]] = start + k * stride


@njit(nogil=True, cache=True, error_model="numpy")
def _add(buffer: NDArray, offsets: NDArray, rows: NDArray, gradient: NDArray, first: int, last: int) -> None:
    for k in range(rows.shape[0]):
        base = offsets[rows[k]]
        for c in range(last - first):
            buffer[base + c] += gradient[k, first + c]


@njit(nogil=True, cache=True, error_model="numpy")
def _norms(
    values: NDArray, offsets: NDArray, bounds: NDArray, groups: int, rows: NDArray, scale: float, out: NDArray
) -> None:
    for k in range(rows.shape[0]):
        total = np.float64(0.0)
        for group in range(groups):
            source = offsets[group, rows[k]]
            for c in range(np.uint64(bounds[group + 1] - bounds[group])):
                value = np.float64(values[source + c])
                total += value * value
        out[k] = np.float32(np.sqrt(total) * scale)


class GradientSlot:
    """One step's gradient and communication buffer. `values` is float32 [N·D]; `offsets` is int64 [G, N]."""

    def __init__(self, rows: int, layout: ColumnLayout) -> None:
        self.layout = layout
        self.row_count = rows
        self.tensor = torch.empty(rows * layout.columns, dtype=torch.float32).zero_()  # every page is touched here
        self.values: NDArray[np.float32] = self.tensor.numpy()
        self.offsets = np.zeros((len(layout.groups), rows), np.int64)
        self.segments: tuple[Segment, ...] = ()

    def partition(self, specs: Sequence[SegmentSpec]) -> None:
        """Zero the slot and lay out segments in link order. They must cover every row of every group once."""
        self.tensor.zero_()
        segments, start = [], 0
        for spec in specs:
            first = start
            for block in spec.blocks:
                stride = sum(self.layout.groups[g].width for g in block.groups)
                inner = start
                for g in block.groups:
                    _place(self.offsets[g], block.rows, inner, stride)
                    inner += self.layout.groups[g].width
                start += stride * len(block.rows)
            segments.append(Segment(spec=spec, start=first, stop=start))
        if start != len(self.values):
            raise AssertionError(f"segments cover {start} of {len(self.values)} elements of the slot")
        self.segments = tuple(segments)

    def add(self, group: int, rows: NDArray[np.int32], gradient: NDArray[np.float32]) -> None:
        """Add a view's gradient, float32 [R, width of group], at `rows` (int32 [R], each at most once)."""
        _add(self.values, self.offsets[group], rows, gradient, 0, gradient.shape[1])

    def add_colours(self, rows: NDArray[np.int32], gradient: NDArray[np.float32]) -> None:
        """Add a view's gradient of the colour columns, float32 [R, 48], whatever groups they are published in."""
        groups = [g for g in self.layout.groups[1:] if g.name != VISIBLE]
        if len(groups) == 1:
            self.add(1, rows, gradient)
            return
        start = groups[0].first
        for number, group in enumerate(groups, start=1):
            _add(self.values, self.offsets[number], rows, gradient, group.first - start, group.last - start)

    def mark(self, group: int, rows: NDArray[np.int32], visible: NDArray[np.bool_]) -> None:
        """Count a view in column `group` of the `rows` that it draws (`visible`, bool [R])."""
        self.add(group, rows, visible.astype(np.float32)[:, None])

    def slice(self, segment: Segment) -> torch.Tensor:
        """The segment's elements, sharing storage."""
        return self.tensor[segment.start : segment.stop]

    def norms(self, rows: NDArray[np.int32], layout: ColumnLayout, scale: float) -> NDArray[np.float32]:
        """‖g(p)‖ · scale of `rows` (int32 [R]) over the columns of `layout`, float32 [R]."""
        out = np.empty(len(rows), np.float32)
        _norms(self.values, self.offsets, layout.bounds, len(layout.groups), rows, scale, out)
        return out

    def holdings(self, values: MemoryCategory = MemoryCategory.GRADIENT) -> Iterator[Holding]:
        """What the slot keeps (`odin.memory`); `values` is the category of the gradient itself."""
        yield values, self.tensor
        yield MemoryCategory.SLOT_OFFSETS, self.offsets
        for segment in self.segments:
            yield from segment.spec.holdings()

    def dense(self) -> NDArray[np.float32]:
        """The gradient as a fresh [N, D] array in column order (reference for tests)."""
        out = np.zeros((self.row_count, self.layout.columns), np.float32)
        for group, offsets in zip(self.layout.groups, self.offsets, strict=True):
            index = offsets[:, None] + np.arange(group.width)
            out[:, group.first : group.last] = self.values[index]
        return out
