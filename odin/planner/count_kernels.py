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

from odin.planner.prefetch import prefetch
from odin.planner.row_kernels import AHEAD, LAST, VIEW

_LAST, _VIEW = LAST, VIEW
_ID = np.uint64(0xFFFFFFFF)
_AHEAD = np.uint64(AHEAD)
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
        prefetch(table, np.uint64(positions[q + _AHEAD]))
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


@njit(nogil=True, cache=True)
def _select(keys: NDArray, base: int, size: int, top: int) -> None:  # pragma: no cover - compiled
    """Move the `top` largest of keys[base : base + size] to its front, the least of them last. Keys are distinct.

    Quickselect whose partition has no branch to mispredict: that is what a heap would spend most of its time on.
    """
    lo, hi, place = np.uint64(base), np.uint64(base + size), np.uint64(base + top - 1)
    while hi - lo > _ONE:
        last = hi - _ONE
        middle = lo + ((hi - lo) >> _ONE)
        one, two, three = keys[lo], keys[middle], keys[last]
        pivot = max(min(one, two), min(max(one, two), three))
        at = middle if pivot == two else (lo if pivot == one else last)
        keys[at], keys[last] = keys[last], pivot
        front = lo
        for q in range(lo, last):
            key = keys[q]
            keys[q] = keys[front]
            keys[front] = key
            front += np.uint64(key > pivot)
        keys[last], keys[front] = keys[front], pivot
        if front == place:
            return
        if front < place:
            lo = front + _ONE
        else:
            hi = front


@njit(nogil=True, cache=True)
def strongest(
    blocks: NDArray, starts: NDArray, table: NDArray, inner: NDArray, positions: NDArray, sizes: NDArray,
    scale: NDArray, top: int, keys: NDArray, fill: NDArray,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Offer every pair whose lower view lies in one of `blocks` [·, 2] (lo, hi) to the lists of both its ends.

    sizes, scale: float64 [V], estimated set sizes and the factor from a view's sample to its set
    top:          k; a list is cut to its k largest whenever it is full
    keys, fill:   uint64 [V·room], room > k, and int64 [V]: lists and their lengths, this thread's own
    """
    views, room = len(sizes), len(keys) // len(sizes)
    shared, met = np.zeros(views, np.uint32), np.empty(views + 1, np.uint32)
    floor = np.full(views, -1.0)  # what a candidate must about reach to be among the k largest
    value = np.empty(1, np.float32)
    bits = value.view(np.uint32)
    ends = np.empty(2, np.int64)
    # Downwards: where views near each other in the capture have ids near each other, as they mostly do, a list gets
    # its strongest candidates first, and most others fall below its floor.
    for block in range(len(blocks) - 1, -1, -1):
        for view in range(blocks[block, 1] - 1, blocks[block, 0] - 1, -1):
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
                value[0] = weight
                high = np.uint64(bits[0]) << _S32
                ends[0], ends[1] = view, other
                for end in range(2):
                    here = ends[end]
                    if weight < floor[here]:
                        continue
                    base = here * room
                    keys[base + fill[here]] = high | (_ID - np.uint64(ends[1 - end]))
                    fill[here] += 1
                    if fill[here] == room:
                        _select(keys, base, room, top)
                        fill[here] = top
                        bits[0] = np.uint32(keys[base + top - 1] >> _S32)
                        floor[here] = value[0] * _SURELY_LESS


@njit(nogil=True, cache=True)
def merge_lists(
    top: int, lo: int, hi: int, keys: NDArray, fill: NDArray, more: NDArray, more_fill: NDArray
) -> None:  # pragma: no cover - compiled
    """Append the candidates of another thread to the lists of views lo…hi-1, cutting those that get full."""
    room = len(keys) // len(fill)
    for view in range(lo, hi):
        base = view * room
        for at in range(more_fill[view]):
            keys[base + fill[view]] = more[base + at]
            fill[view] += 1
            if fill[view] == room:
                _select(keys, base, room, top)
                fill[view] = top


@njit(nogil=True, cache=True)
def cut_lists(
    top: int, lo: int, hi: int, keys: NDArray, fill: NDArray, kept: NDArray
) -> None:  # pragma: no cover - compiled
    """Copy the k largest of the lists of views lo…hi-1 into kept, uint64 [V, k], the least last where there are k.

    fill: how many there are, afterwards
    """
    room = len(keys) // len(fill)
    for view in range(lo, hi):
        base = view * room
        if fill[view] >= top:
            _select(keys, base, fill[view], top)
            fill[view] = top
        for at in range(fill[view]):
            kept[view, at] = keys[base + at]


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
