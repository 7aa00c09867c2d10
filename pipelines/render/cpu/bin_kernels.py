"""Tile lists: visible rows sorted by (depth, row), then one list of rows for each 16×16 tile.

Kernels fill buffers of the caller: allocating inside would double their compile time.

Legend: M rows, v visible rows (extents ≥ 0), T tiles (row-major), E entries of all lists.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pipelines.render.conventions import TILE
from pipelines.render.vectors import HELPER, ROW

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Keys = NDArray[np.uint32]

BUCKETS = 256  # of a radix pass; four passes cover a float32
_MASK = np.uint32(BUCKETS - 1)


@njit(**HELPER)
def radix_pass(keys: Keys, order: Ints, to_keys: Keys, to_order: Ints, count: int, shift: int, starts: Ints) -> None:
    """Stable distribution of the first `count` pairs by one byte of the key; starts: scratch [257]."""
    for b in range(BUCKETS + 1):
        starts[b] = 0
    for j in range(count):
        starts[((keys[j] >> np.uint32(shift)) & _MASK) + 1] += 1
    for b in range(BUCKETS):
        starts[b + 1] += starts[b]
    for j in range(count):
        bucket = (keys[j] >> np.uint32(shift)) & _MASK
        place = starts[bucket]
        starts[bucket] = place + 1
        to_keys[place], to_order[place] = keys[j], order[j]


@njit(**ROW)
def depth_order(
    depths: Floats, extents: Floats, order: Ints, keys: Keys, spare_order: Ints, spare_keys: Keys, starts: Ints
) -> np.int64:
    """Sort visible rows by ascending depth, equal depths by row, into order[:v]; returns v.

    A radix sort of the bit patterns, which order like the numbers because a visible depth is positive.
    order, keys and their spares: [M]; starts: scratch [257].
    """
    count = np.int64(0)  # a literal 0 would compile `radix_pass` twice
    for i in range(depths.shape[0]):
        if extents[i, 0] >= 0.0:
            order[count], keys[count] = i, np.float32(depths[i]).view(np.uint32)
            count += 1
    for shift in range(0, 32, 16):
        radix_pass(keys, order, spare_keys, spare_order, count, shift, starts)
        radix_pass(spare_keys, spare_order, keys, order, count, shift + 8, starts)
    return count


@njit(**HELPER)
def tile_range(centre: float, half: float, tiles: int) -> tuple[np.int64, np.int64]:
    """First and last tile that [centre - half, centre + half] touches along one axis."""
    first = max(math.floor((centre - half) / TILE), 0.0)
    last = min(math.floor((centre + half) / TILE), tiles - 1.0)
    return np.int64(first), np.int64(last)


@njit(**ROW)
def tile_boxes(
    order: Ints, visible: int, means: Floats, extents: Floats, columns: int, rows: int, boxes: Ints, starts: Ints
) -> int:
    """Tile box (x0, x1, y0, y1 inclusive) of each visible row, the lists' starts [T + 1] (zeros on entry), and E."""
    for j in range(visible):
        i = order[j]
        x0, x1 = tile_range(np.float64(means[i, 0]), np.float64(extents[i, 0]), columns)
        y0, y1 = tile_range(np.float64(means[i, 1]), np.float64(extents[i, 1]), rows)
        boxes[j, 0], boxes[j, 1], boxes[j, 2], boxes[j, 3] = x0, x1, y0, y1
        for y in range(y0, y1 + 1):
            for x in range(x0, x1 + 1):
                starts[y * columns + x + 1] += 1
    for t in range(columns * rows):
        starts[t + 1] += starts[t]
    return starts[columns * rows]


@njit(**ROW)
def fill_lists(order: Ints, visible: int, boxes: Ints, columns: int, place: Ints, lists: Ints) -> None:
    """Write the lists int32 [E] in (depth, row) order; place [T]: the starts, advanced to the ends."""
    for j in range(visible):
        for y in range(boxes[j, 2], boxes[j, 3] + 1):
            for x in range(boxes[j, 0], boxes[j, 1] + 1):
                t = y * columns + x
                lists[place[t]] = order[j]
                place[t] += 1
