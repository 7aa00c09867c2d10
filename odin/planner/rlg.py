"""Relative locality graph: how strongly two views are coupled by the SfM points they share (§4.1.1).

Legend: V views, P tracks, E stored edges (each pair twice).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odin.errors import InputError
from odin.planner import symmetric_kernels as symmetric
from odin.planner.rows import default_threads, row_table
from odin.planner.settings import TOP_K
from odin.tracks import Tracks


@dataclass(frozen=True, kw_only=True)
class LocalityGraph:
    """Symmetric weighted graph over views as compressed rows; a missing edge has weight 0 (§4.1.1).

    offsets:    int64 [V+1], offsets[v]:offsets[v+1] are the edges of view v
    neighbours: int32 [E], ascending within a view; never the view itself
    weights:    float32 [E], coupling in (0, 1]; the Jaccard similarity of eq. 1 when made from tracks

    Raises InputError when the arrays do not describe such a table.
    """

    offsets: NDArray[np.int64]
    neighbours: NDArray[np.int32]
    weights: NDArray[np.float32]

    def __post_init__(self) -> None:
        edges = len(self.neighbours)
        if len(self.weights) != edges or self.offsets[0] != 0 or self.offsets[-1] != edges:
            raise InputError(
                f"A locality graph of {edges} edges needs as many weights ({len(self.weights)} given) and "
                "offsets from 0 to that number. Build it with `locality_graph` or `graph_from_pairs`."
            )

    @property
    def view_count(self) -> int:
        """V."""
        return len(self.offsets) - 1

    @property
    def degree(self) -> NDArray[np.int64]:
        """Number of neighbours of each view, int64 [V]; 0 for a view that shares no track."""
        return np.diff(self.offsets)

    def edges_of(self, views: NDArray[np.integer]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Neighbours and weights of all edges that leave `views` [M], one view after the other."""
        rows = [slice(self.offsets[v], self.offsets[v + 1]) for v in views]
        if not rows:
            return self.neighbours[:0], self.weights[:0]
        return (
            np.concatenate([self.neighbours[row] for row in rows]),
            np.concatenate([self.weights[row] for row in rows]),
        )


def locality_graph(
    tracks: Tracks,
    *,
    top_k: int | None = TOP_K,
    track_cap: int | None = None,
    observations: int | None = None,
    threads: int | None = None,
    seen: NDArray[np.int64] | None = None,
) -> LocalityGraph:
    """Graph of Jaccard similarities of the views' track sets (§4.1.1, eq. 1).

    Repeated observations of a track by one view count once; a track seen by one view still counts in the
    union. A view without tracks has no edges.

    tracks:    tracks over the V views to schedule (the training split)
    top_k:     keep an edge if it is among the `top_k` strongest of either end (ties: lower view); None: all
    track_cap: a longer track keeps this many of its views, drawn once and for all; None: all.
               Eq. 1 is then the similarity of the track sets that are left.
    observations: a view with more keeps about this many (that many in the mean), drawn by track, so that views
               keep the same tracks; None: all. Eq. 1 is then an estimate of itself. Drawn before the cap.
    threads:   None chooses by the amount of input; the graph does not depend on it
    seen:      int64 [V], observations of each view (`observations_per_view`), where they have been counted already

    Time grows with the sum of squared track lengths, which the cap bounds; memory with the observations and,
    without top_k, the edges. Raises InputError for a bound below 1 or a negative `top_k`.
    """
    for name, value, least in (("top_k", top_k, 0), ("track_cap", track_cap, 1), ("observations", observations, 1)):
        if value is not None and value < least:
            raise InputError(f"{name}={value}; use {least} or more, or None for all.")
    if threads is not None and threads < 1:
        raise InputError(f"threads={threads}; use 1 or more, or None to choose by the amount of input.")
    threads = threads or default_threads(tracks)
    rows = row_table(tracks, track_cap=track_cap, observations=observations, threads=threads, seen=seen)
    if top_k is None:
        return _from_sorted_pairs(*rows.pairs())
    top_k = min(top_k, max(tracks.view_count - 1, 0))
    return _from_strongest(*rows.strongest(top_k, threads)) if top_k else _without_edges(tracks.view_count)


def _without_edges(view_count: int) -> LocalityGraph:
    none = np.zeros(0, np.int64)
    return graph_from_pairs(none, none, np.zeros(0), view_count=view_count)


def _from_strongest(kept: NDArray[np.uint64], fill: NDArray[np.int64]) -> LocalityGraph:
    """The edges that either end keeps, from each view's keys, uint64 [V, k], and how many there are, int64 [V]."""
    degree = np.zeros(len(fill), np.int64)
    symmetric.kept_degree(kept, fill, degree)
    return _filled(degree, lambda *arrays: symmetric.kept_edges(kept, fill, *arrays))


def _from_sorted_pairs(
    offsets: NDArray[np.int64], others: NDArray[np.int32], weights: NDArray[np.float32]
) -> LocalityGraph:
    """All pairs, listed once at their lower view."""
    degree = np.zeros(len(offsets) - 1, np.int64)
    symmetric.pair_degree(offsets, others, degree)
    return _filled(degree, lambda *arrays: symmetric.mirror_pairs(offsets, others, weights.view(np.uint32), *arrays))


def _filled(degree: NDArray[np.int64], write: Callable[[NDArray, NDArray, NDArray], None]) -> LocalityGraph:
    """The graph of these degrees, int64 [V], whose edges `write` puts in place in any order within a view.

    write(next free place of each view, neighbours int32 [E], bits of the weights uint32 [E])
    """
    offsets = np.concatenate([[0], np.cumsum(degree)]).astype(np.int64)
    loose, neighbours = np.empty((2, offsets[-1]), np.int32)
    loose_bits, bits = np.empty((2, offsets[-1]), np.uint32)
    write(offsets[:-1].copy(), loose, loose_bits)
    symmetric.transpose(offsets, loose, loose_bits, offsets[:-1].copy(), neighbours, bits)
    return LocalityGraph(offsets=offsets, neighbours=neighbours, weights=bits.view(np.float32))


def graph_from_pairs(
    first: NDArray[np.integer],
    second: NDArray[np.integer],
    weight: NDArray[np.floating],
    *,
    view_count: int,
    top_k: int | None = TOP_K,
) -> LocalityGraph:
    """Graph of distinct unordered pairs [M] with their weights; pairs of weight 0 are dropped.

    top_k: as in `locality_graph`. Taking an edge that either end wants keeps the graph symmetric.
    """
    keep = weight > 0
    low, high = np.minimum(first, second)[keep], np.maximum(first, second)[keep]
    value = weight[keep].astype(np.float32)
    if top_k is not None:
        wanted = _strongest(low, high, value, view_count, top_k)
        low, high, value = low[wanted], high[wanted], value[wanted]
    rows, cols = np.concatenate([low, high]), np.concatenate([high, low])
    order = np.lexsort((cols, rows))
    counts = np.bincount(rows, minlength=view_count)
    return LocalityGraph(
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        neighbours=cols[order].astype(np.int32),
        weights=np.concatenate([value, value])[order],
    )


def _strongest(
    low: NDArray[np.integer],
    high: NDArray[np.integer],
    weight: NDArray[np.float32],
    view_count: int,
    top_k: int,
) -> NDArray[np.bool_]:
    """Which pairs are among the `top_k` strongest of at least one end, bool [M]."""
    rows, cols = np.concatenate([low, high]), np.concatenate([high, low])
    order = np.lexsort((cols, -np.concatenate([weight, weight]), rows))
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=view_count))])
    place = np.arange(len(rows)) - starts[rows[order]]
    kept = np.zeros(len(rows), bool)
    kept[order[place < top_k]] = True
    return kept[: len(low)] | kept[len(low) :]
