"""The row table of the locality graph, and the pairs counted from it, on one or several threads.

Threads run kernels that hold no interpreter lock. What they produce does not depend on their number: parts are
placed in track order, and the kept neighbours are a set that has one value (`count_kernels`).
Legend: V views, N entries, T threads, k kept neighbours.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from odin.errors import InputError
from odin.planner import count_kernels as count
from odin.planner import row_kernels as kernels
from odin.planner.pieces import Pieces
from odin.tracks import Tracks

# One thread below: starting and merging costs more than it saves (about 10,000 views of 100 observations).
OBSERVATIONS_PER_THREAD = 1_000_000
MOST_THREADS = 2  # plans are made on every rank of a node at once
SPARE = 4  # of a list of candidates beyond twice what is kept of it
BUCKETS = 512  # that rows are written to at a time
BLOCKS = 4  # of views per thread: coupling varies along a capture, so threads take turns


@dataclass(frozen=True, kw_only=True)
class RowTable:
    """Rows of at least two views in the order of their first view.

    starts:    int64 [V+1], entries of the rows that begin with a view
    table:     uint32 [N], see `row_kernels`
    inner:     int64 [V+1] and positions, uint32: where each view stands inside a row, neither first nor last; as many
               more as a loop looks ahead are 0
    sizes:     float64 [V], number of tracks of a view, estimated where they are sampled
    scale:     float64 [V], from a view's sample to its tracks; 1 where all are used
    """

    starts: NDArray[np.int64]
    table: NDArray[np.uint32]
    inner: NDArray[np.int64]
    positions: NDArray[np.uint32]
    sizes: NDArray[np.float64]
    scale: NDArray[np.float64]

    def _for_counting(self) -> tuple[NDArray, ...]:
        return self.starts, self.table, self.inner, self.positions

    def strongest(self, top_k: int, threads: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """The `top_k` strongest edges of each view as keys, uint64 [V, k], and how many it has, int64 [V].

        Of a view that has k, the last is the weakest.
        """
        views = len(self.sizes)
        cuts = np.linspace(0, views, min(BLOCKS * threads, views) + 1).astype(np.int64)
        blocks = np.stack([cuts[:-1], cuts[1:]], axis=1)
        room = 2 * top_k + SPARE
        lists = [(np.empty(views * room, np.uint64), np.zeros(views, np.int64)) for _ in range(threads)]

        def work(part: int) -> None:
            mine = np.ascontiguousarray(blocks[part::threads])
            count.strongest(mine, *self._for_counting(), self.sizes, self.scale, top_k, *lists[part])

        in_threads(work, threads)
        kept = np.empty((views, top_k), np.uint64)
        ranges = np.linspace(0, views, threads + 1).astype(np.int64)

        def merge(part: int) -> None:
            mine = (top_k, ranges[part], ranges[part + 1])
            for more in lists[1:]:
                count.merge_lists(*mine, *lists[0], *more)
            count.cut_lists(*mine, *lists[0], kept)

        in_threads(merge, threads)
        return kept, lists[0][1]

    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
        """All pairs that share a track, at their lower view: offsets [V+1], the other view, the weight."""
        per_view = np.zeros(len(self.sizes), np.int64)
        count.count_pairs(*self._for_counting(), per_view)
        offsets = np.concatenate([[0], np.cumsum(per_view)]).astype(np.int64)
        others, weights = np.empty(offsets[-1], np.int32), np.empty(offsets[-1], np.float32)
        count.list_pairs(*self._for_counting(), self.sizes, self.scale, offsets, others, weights)
        return offsets, others, weights


def default_threads(tracks: Tracks) -> int:
    """Two threads where they pay and the process may use two cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(MOST_THREADS, cores, len(tracks.views) // OBSERVATIONS_PER_THREAD))


def in_threads(work: Callable[[int], None], threads: int) -> None:
    """Call work(0) … work(threads-1) at the same time; the first error is raised."""
    if threads == 1:
        work(0)
        return
    with ThreadPoolExecutor(threads - 1) as pool:
        others = [pool.submit(work, part) for part in range(1, threads)]
        work(0)
        for other in others:
            other.result()


def observations_per_view(tracks: Tracks, threads: int) -> NDArray[np.int64]:
    """How many observations each view has, int64 [V]; one pass, where np.unique takes seconds at 50,000 views."""
    seen = np.zeros((threads, tracks.view_count), np.int64)
    cuts = np.linspace(0, len(tracks.views), threads + 1).astype(np.int64)
    in_threads(lambda part: kernels.count_views(tracks.views, cuts[part], cuts[part + 1], seen[part]), threads)
    return seen.sum(axis=0)


def row_table(
    tracks: Tracks,
    *,
    track_cap: int | None,
    observations: int | None,
    threads: int,
    seen: NDArray[np.int64] | None = None,
) -> RowTable:
    """Clean, sample, cap and sort the tracks into rows; see `locality_graph` for the rules."""
    if tracks.view_count > kernels.MAX_VIEWS or len(tracks.views) >= 1 << 32:
        raise InputError(
            f"The planner handles up to {kernels.MAX_VIEWS} views and 2³² observations; there are "
            f"{tracks.view_count} and {len(tracks.views)}. Split the capture."
        )
    if observations is not None and seen is None:
        seen = observations_per_view(tracks, threads)
    limit, scale = _sampling(tracks.view_count, seen, observations)
    cap = max(len(tracks.views), 1) if track_cap is None else track_cap
    bounds = np.linspace(0, tracks.track_count, threads + 1).astype(np.int64)
    parts = [Pieces(tracks=tracks, limit=limit, cap=cap, lo=lo, hi=hi) for lo, hi in pairwise(bounds.tolist())]
    table, starts, sizes = _sorted_rows(parts, tracks.view_count)
    inner, positions = _inner(table, starts, threads)
    return RowTable(starts=starts, table=table, inner=inner, positions=positions, sizes=sizes * scale, scale=scale)


def _sampling(
    views: int, seen: NDArray[np.int64] | None, observations: int | None
) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
    """The highest 32-bit hash of a track that each view keeps, so that about `observations` of a view that has more
    are left (uint32 [V]; [0] where nothing is left out), and from its sample to its tracks the factor, float64 [V].
    """
    if observations is None or seen is None or seen.max(initial=0) <= observations:
        return np.empty(0, np.uint32), np.ones(views)
    share = np.ceil(observations / np.maximum(seen, observations) * 2.0**32)
    return (share - 1).astype(np.uint32), 2.0**32 / share


def _sorted_rows(parts: list[Pieces], views: int) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int64]]:
    """The table of rows of two views and more by first view, its starts [V+1], and the entries of each view [V].

    parts: of each thread
    """
    threads = len(parts)
    entries, degree = np.zeros((2, threads, views), np.int64)

    def measure(part: int) -> None:
        entries[part] = parts[part].count()

    in_threads(measure, threads)
    starts = np.concatenate([[0], np.cumsum(entries.sum(axis=0))]).astype(np.int64)
    shift = (views // BUCKETS).bit_length()
    coarse = np.add.reduceat(entries, np.arange(0, views, 1 << shift), axis=1) if views else entries
    table = np.empty(kernels.starts_from_counts(coarse, np.empty(coarse.shape[1] + 1, np.int64)), np.uint32)

    def place(part: int) -> None:
        for rows in parts[part].rows():
            kernels.place_rows(rows, shift, coarse[part], degree[part], table)
            del rows  # before the next ones are collected

    in_threads(place, threads)
    if shift:
        in_threads(lambda part: kernels.settle_rows(table, starts, shift, part, threads), threads)
    return table, starts, degree.sum(axis=0)


def _inner(
    table: NDArray[np.uint32], starts: NDArray[np.int64], threads: int
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """`inner` and `positions` of a row table."""
    bounds = np.linspace(0, len(table), threads + 1).astype(np.int64)
    counts = np.zeros((threads, len(starts) - 1), np.int64)
    in_threads(lambda part: kernels.count_inner(table, bounds[part], bounds[part + 1], counts[part]), threads)
    inner = np.empty_like(starts)
    positions = np.zeros(kernels.starts_from_counts(counts, inner) + kernels.AHEAD, np.uint32)
    in_threads(
        lambda part: kernels.place_inner(table, bounds[part], bounds[part + 1], counts[part], positions), threads
    )
    return inner, positions
