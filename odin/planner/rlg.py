"""Relative locality graph: how strongly two views are coupled by the SfM points they share (§4.1.1).

Legend: V views, P tracks, E stored edges (each pair twice).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from odin.errors import InputError
from odin.tracks import Tracks

TOP_K = 64


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


def locality_graph(tracks: Tracks, *, top_k: int | None = TOP_K, track_cap: int | None = None) -> LocalityGraph:
    """Graph of Jaccard similarities of the views' track sets (§4.1.1, eq. 1).

    Repeated observations of a track by one view count once; a track seen by one view still counts in the
    union. A view without tracks has no edges.

    tracks:    tracks over the V views to schedule (the training split)
    top_k:     keep an edge if it is among the `top_k` strongest of either end (ties: lower view); None: all
    track_cap: a longer track keeps this many of its views, drawn once and for all; None: all.
               Eq. 1 is then the similarity of the track sets that are left.

    Time and memory grow with the sum of squared track lengths; the cap bounds both.
    """
    seen = _incidence(tracks, track_cap)
    shared = sp.triu(seen @ seen.T, k=1, format="coo")
    sizes = np.asarray(seen.sum(axis=1)).ravel()
    union = sizes[shared.row] + sizes[shared.col] - shared.data
    return graph_from_pairs(shared.row, shared.col, shared.data / union, view_count=tracks.view_count, top_k=top_k)


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


def _incidence(tracks: Tracks, track_cap: int | None) -> sp.csr_array:
    """Who sees what, int32 [V, P] of 0 and 1."""
    track = np.repeat(np.arange(tracks.track_count), np.diff(tracks.offsets))
    shape = (tracks.view_count, tracks.track_count)
    seen = sp.coo_array((np.ones(len(track), np.int32), (tracks.views, track)), shape=shape).tocsr()
    seen.data[:] = 1  # tocsr adds repeated observations up
    if track_cap is None:
        return seen
    pairs = seen.tocoo()
    keep = _within_cap(pairs.col, track_cap)
    return sp.coo_array((pairs.data[keep], (pairs.row[keep], pairs.col[keep])), shape=shape).tocsr()


def _within_cap(track: NDArray[np.integer], cap: int) -> NDArray[np.bool_]:
    """Which observations [O] survive when every track keeps `cap` of them.

    Drawn at random: evenly spaced survivors would drop exactly the shared tracks of neighbouring views.
    """
    order = np.lexsort((np.random.default_rng(0).random(len(track)), track))
    starts = np.concatenate([[0], np.cumsum(np.bincount(track))])
    keep = np.zeros(len(track), bool)
    keep[order] = np.arange(len(track)) - starts[track[order]] < cap
    return keep
