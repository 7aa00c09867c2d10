"""Kernels that turn tracks into rows for counting: cleaned, bucketed by first view, inverted to positions (D§12).

A row is one track's kept views in ascending order, without repeats. Entries of the row table are uint32: the view,
plus `FIRST` on the first and `LAST` on the last entry of a row. Rows lie in the order of their first view, so that
the rows a view meets lie near each other whatever the order of the tracks.

Legend: P tracks, O observations, V views, T threads, N entries of the row table.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

FIRST = np.uint32(1 << 30)
LAST = np.uint32(1 << 31)
VIEW = np.uint32((1 << 30) - 1)
MAX_VIEWS = 1 << 30
AHEAD = 8  # rows that a count asks memory for before it comes to them
SHORT = 24  # rows up to here are sorted by insertion

_FIRST, _LAST, _BOTH = FIRST, LAST, FIRST | LAST
_GOLDEN, _MIX1, _MIX2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)


@njit(nogil=True, cache=True, inline="always")
def mix(state: int) -> int:  # pragma: no cover - compiled
    """splitmix64 of `state`: equal on every machine and for every number of threads."""
    z = np.uint64(state) + _GOLDEN
    z = (z ^ (z >> _S30)) * _MIX1
    z = (z ^ (z >> _S27)) * _MIX2
    return z ^ (z >> _S31)


@njit(nogil=True, cache=True)
def count_views(views: NDArray[np.int32], lo: int, hi: int, out: NDArray[np.int64]) -> None:  # pragma: no cover
    """Add the observations lo…hi-1 of each view to `out`, int64 [V]."""
    for q in range(np.uint64(lo), np.uint64(hi)):
        out[np.uint32(views[q])] += 1


@njit(nogil=True, cache=True)
def _sorted_distinct(row: NDArray[np.uint32], size: int) -> int:  # pragma: no cover - compiled
    """Sort row[:size] in place and drop repeats; the number of views left."""
    if size > SHORT:
        row[:size].sort()
    else:
        for at in range(1, size):
            value, hole = row[at], at
            while hole > 0 and row[hole - 1] > value:
                row[hole] = row[hole - 1]
                hole -= 1
            row[hole] = value
    left = 1
    for at in range(1, size):
        if row[at] != row[left - 1]:
            row[left] = row[at]
            left += 1
    return left


@njit(nogil=True, cache=True)
def _draw(row: NDArray[np.uint32], size: int, cap: int, seed: int) -> int:  # pragma: no cover - compiled
    """Keep `cap` of row[:size], in order, every subset equally likely.

    At random: evenly spaced survivors would drop exactly the shared tracks of neighbouring views.
    """
    kept, state = 0, mix(seed)
    for at in range(size):
        state = mix(state)
        if np.int64(((state >> _S32) * np.uint64(size - at)) >> _S32) < cap - kept:
            row[kept] = row[at]
            kept += 1
    return kept


@njit(nogil=True, cache=True)
def collect_rows(
    offsets: NDArray, views: NDArray, lo: int, hi: int, limit: NDArray, highest: int, cap: int,
    rows: NDArray, entries: NDArray,
) -> int:  # fmt: skip  # pragma: no cover - compiled
    """The rows of tracks lo…hi-1 one after another in `rows`, uint32, from 1 on; where they end.

    A track of one kept view is written as a row too, with both flags: it makes none, but widens unions.

    limit:   uint32 [V], the highest 32-bit hash of a track that a view keeps; of length 0: every view keeps all
    highest: its maximum
    cap:     most views of a row
    rows:    room for two more than all observations of these tracks
    entries: uint32 [V], entries of rows of two or more are added at their first view

    Which views keep a track cannot be predicted, so nothing here branches on it: a track of which nothing is kept
    marks a place that is written over, or an end that is marked already.
    """
    sampled, end = len(limit) > 0, np.uint64(1)
    rows[0] = _LAST
    for track in range(lo, hi):
        start, stop = np.uint64(offsets[track]), np.uint64(offsets[track + 1])
        drawn = np.uint32(mix(track) >> _S32)
        if start == stop or (sampled and drawn > np.uint32(highest)):
            continue
        first, least, falls = end, np.uint32(0), np.uint32(0)
        if sampled:
            for q in range(start, stop):
                view = np.uint32(views[q])
                falls += np.uint32(view < least)
                least = view + np.uint32(1)
                rows[end] = view
                end += np.uint64(drawn <= limit[view])
        else:
            for q in range(start, stop):
                view = np.uint32(views[q])
                falls += np.uint32(view < least)
                least = view + np.uint32(1)
                rows[end] = view
                end += np.uint64(1)
        count = np.int64(end - first)
        if falls and count > 1:
            count = _sorted_distinct(rows[first:end], count)
        if count > cap:
            count = _draw(rows[first:end], count, cap, track)
        end = first + np.uint64(count)
        entries[rows[first]] += np.uint32(count if count > 1 else 0)
        rows[first] |= _FIRST
        rows[end - np.uint64(1)] |= _LAST
    return np.int64(end)


@njit(nogil=True, cache=True)
def starts_from_counts(counts: NDArray[np.int64], starts: NDArray[np.int64]) -> int:  # pragma: no cover - compiled
    """Turn counts [T, V] into first positions in place: by view, then by thread. Fills starts [V+1]; the total."""
    total = 0
    for view in range(counts.shape[1]):
        starts[view] = total
        for part in range(counts.shape[0]):
            here = counts[part, view]
            counts[part, view] = total
            total += here
    starts[counts.shape[1]] = total
    return total


@njit(nogil=True, cache=True)
def place_rows(
    rows: NDArray, shift: int, at_bucket: NDArray, degree: NDArray, table: NDArray
) -> None:  # pragma: no cover - compiled
    """Write rows, as `collect_rows` leaves them from 1 on, into `table` [N]: each to its bucket, first view >> shift.

    at_bucket: where the next row of a bucket goes, which moves
    Adds every entry, also of rows of one view, which are left out, to its view's degree, int64 [V].
    """
    bucket, to = np.uint32(0), np.uint64(0)
    for p in range(np.uint64(len(rows))):
        entry = rows[p]
        view = entry & VIEW
        degree[view] += 1
        if entry >= _BOTH:
            continue
        if entry & _FIRST:
            bucket = view >> np.uint32(shift)
            to = np.uint64(at_bucket[bucket])
        table[to] = entry
        to += np.uint64(1)
        if entry >= _LAST:
            at_bucket[bucket] = to


@njit(nogil=True, cache=True)
def settle_rows(
    table: NDArray, starts: NDArray, shift: int, part: int, parts: int
) -> None:  # pragma: no cover - compiled
    """Sort the rows of every parts-th bucket of 2^shift views by first view, keeping the order of equals.

    Rows go to a few buckets first and are sorted within one, which fits the cache: written to tens of thousands of
    places at once, nearly every row would miss it.
    """
    views = len(starts) - 1
    width = 1 << shift
    for bucket in range(part, (views + width - 1) >> shift, parts):
        low, high = bucket << shift, min((bucket + 1) << shift, views)
        rows = table[starts[low] : starts[high]].copy()
        free = starts[low:high].copy()
        to = np.uint64(0)
        for p in range(np.uint64(len(rows))):
            entry = rows[p]
            if entry & _FIRST:
                view = (entry & VIEW) - np.uint32(low)
                to = np.uint64(free[view])
            table[to] = entry
            to += np.uint64(1)
            if entry >= _LAST:
                free[view] = to


@njit(nogil=True, cache=True)
def count_inner(table: NDArray, lo: int, hi: int, counts: NDArray) -> None:  # pragma: no cover - compiled
    """Add to counts [V] how often each view stands inside a row (neither first nor last) in table[lo:hi]."""
    for p in range(np.uint64(lo), np.uint64(hi)):
        if table[p] < _FIRST:
            counts[table[p]] += 1


@njit(nogil=True, cache=True)
def place_inner(
    table: NDArray, lo: int, hi: int, at_view: NDArray, positions: NDArray
) -> None:  # pragma: no cover - compiled
    """List the positions of each view's inner entries in table[lo:hi], from at_view[view] on."""
    for p in range(np.uint64(lo), np.uint64(hi)):
        view = table[p]
        if view < _FIRST:
            slot = at_view[view]
            positions[np.uint64(slot)] = np.uint32(p)
            at_view[view] = slot + 1
