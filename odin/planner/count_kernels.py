"""Kernels that count shared tracks and keep the strongest neighbours (eq. 1, D§12).

Each pair of views is counted once, from its lower view: the rows that begin with the view are one contiguous
stretch, counted without a look at where a row ends; of the rows it stands inside of, the entries after it.

A candidate is one uint64: bits of the float32 weight, then the complement of the neighbour's id. A larger key is a
stronger edge, and among equal weights the lower view, so that the kept set does not depend on the order of arrival.

Legend: V views, k kept neighbours, N entries of the row table.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from odin.planner.row_kernels import LAST, VIEW

_LAST, _VIEW = LAST, VIEW
_ID = np.uint64(0xFFFFFFFF)
_S32, _ONE = np.uint64(32), np.uint64(1)
# A weight below this share of the weakest kept one cannot round up to it: float32 has 24 bits.
_SURELY_LESS = 1.0 - 2.0**-22


@njit(nogil=True, cache=True, inline="always")
def _meet(
    view: int, starts: NDArray, table: NDArray, inner: NDArray, positions: NDArray, shared: NDArray, met: NDArray
) -> int:  # pragma: no cover - compiled
    """Count the tracks that `view` shares with every later view into shared [V]; list those views in met.

    Returns the length of the list, which may contain `view` itself.
    """
    found = np.uint64(0)
    for p in range(np.uint64(starts[view]), np.uint64(starts[view + 1])):
        other = table[p] & _VIEW
        seen = shared[other]
        met[found] = other
        found += np.uint64(seen == 0)
        shared[other] = seen + np.uint32(1)
    for q in range(np.uint64(inner[view]), np.uint64(inner[view + 1])):
        p = np.uint64(positions[q])
        more = True
        while more:
            p += _ONE
            entry = table[p]
            other = entry & _VIEW
            seen = shared[other]
            met[found] = other
            found += np.uint64(seen == 0)
            shared[other] = seen + np.uint32(1)
            more = entry < _LAST
    return found


@njit(nogil=True, cache=True, inline="always")
def _weight(count: int, one: float, two: float, scale: float) -> np.float32:  # pragma: no cover - compiled
    """Jaccard similarity from a count and two set sizes; `scale` turns the sample's count into an estimate."""
    both = min(count * scale, min(one, two))
    return np.float32(both / (one + two - both))


@njit(nogil=True, cache=True, inline="always")
def _key(weight: np.float32, bits: NDArray, view: int) -> int:  # pragma: no cover - compiled
    """Candidate key; `bits` is a scratch float32 [1]."""
    bits[0] = weight
    return (np.uint64(bits.view(np.uint32)[0]) << _S32) | (_ID - np.uint64(view))


@njit(nogil=True, cache=True)
def _push(heap: NDArray, size: int, key: int) -> int:  # pragma: no cover - compiled
    """Offer `key` to a heap [k] of the largest keys whose root is the least; the new size."""
    if size < len(heap):
        hole = size
        while hole > 0 and heap[(hole - 1) // 2] > key:
            heap[hole] = heap[(hole - 1) // 2]
            hole = (hole - 1) // 2
        heap[hole] = key
        return size + 1
    if key <= heap[0]:
        return size
    hole, child = 0, 1
    while child < size:
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= key:
            break
        heap[hole] = heap[child]
        hole, child = child, 2 * child + 1
    heap[hole] = key
    return size


@njit(nogil=True, cache=True, inline="always")
def _root_weight(heap: NDArray, size: int, bits: NDArray) -> float:  # pragma: no cover - compiled
    """What a candidate must about reach to enter; `bits` is a scratch uint32 [1]."""
    if size < len(heap):
        return -1.0
    bits[0] = np.uint32(heap[0] >> _S32)
    return bits.view(np.float32)[0] * _SURELY_LESS


@njit(nogil=True, cache=True)
def strongest(
    blocks: NDArray, starts: NDArray, table: NDArray, inner: NDArray, positions: NDArray, sizes: NDArray,
    scale: NDArray, heaps: NDArray, fill: NDArray,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Offer every pair whose lower view lies in one of `blocks` [·, 2] (lo, hi) to the heaps of both its ends.

    sizes, scale: float64 [V], estimated set sizes and the factor from a view's sample to its set
    heaps, fill:  uint64 [V, k] and int64 [V], this thread's own
    """
    views = len(sizes)
    shared, met = np.zeros(views, np.uint32), np.empty(views + 1, np.uint32)
    floor, as_float, as_bits = np.full(views, -1.0), np.empty(1, np.float32), np.empty(1, np.uint32)
    for block in range(len(blocks)):
        for view in range(blocks[block, 0], blocks[block, 1]):
            found = _meet(view, starts, table, inner, positions, shared, met)
            size, factor = sizes[view], scale[view]
            for at in range(found):
                other = np.uint64(met[at])
                count = shared[other]
                shared[other] = 0
                if other == np.uint64(view):
                    continue
                both = count * max(factor, scale[other])
                union = size + sizes[other] - both
                if both < floor[view] * union and both < floor[other] * union:
                    continue
                weight = _weight(count, size, sizes[other], max(factor, scale[other]))
                fill[view] = _push(heaps[view], fill[view], _key(weight, as_float, other))
                fill[other] = _push(heaps[other], fill[other], _key(weight, as_float, view))
                floor[view] = _root_weight(heaps[view], fill[view], as_bits)
                floor[other] = _root_weight(heaps[other], fill[other], as_bits)


@njit(nogil=True, cache=True)
def merge_heaps(heaps: NDArray, fill: NDArray, more: NDArray, more_fill: NDArray) -> None:  # pragma: no cover
    """Offer the candidates of another thread, uint64 [V, k] and int64 [V], to the heaps."""
    for view in range(len(fill)):
        for at in range(more_fill[view]):
            fill[view] = _push(heaps[view], fill[view], more[view, at])


@njit(nogil=True, cache=True)
def count_pairs(
    starts: NDArray, table: NDArray, inner: NDArray, positions: NDArray, pairs: NDArray
) -> None:  # pragma: no cover - compiled
    """Fill pairs, int64 [V]: with how many later views each view shares a track."""
    views = len(pairs)
    shared, met = np.zeros(views, np.uint32), np.empty(views + 1, np.uint32)
    for view in range(views):
        found = _meet(view, starts, table, inner, positions, shared, met)
        for at in range(found):
            shared[met[at]] = 0
        # The list holds the view itself exactly if rows begin with it.
        pairs[view] = np.int64(found) - np.int64(starts[view + 1] > starts[view])


@njit(nogil=True, cache=True)
def list_pairs(
    starts: NDArray, table: NDArray, inner: NDArray, positions: NDArray, sizes: NDArray, scale: NDArray,
    offsets: NDArray, others: NDArray, weights: NDArray,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Fill others (int32) and weights (float32) at offsets[view]… with every later view that shares a track."""
    views = len(sizes)
    shared, met = np.zeros(views, np.uint32), np.empty(views + 1, np.uint32)
    for view in range(views):
        found, out = _meet(view, starts, table, inner, positions, shared, met), offsets[view]
        for at in range(found):
            other = met[at]
            count = shared[other]
            shared[other] = 0
            if other != view:
                others[out] = other
                weights[out] = _weight(count, sizes[view], sizes[other], max(scale[view], scale[other]))
                out += 1
