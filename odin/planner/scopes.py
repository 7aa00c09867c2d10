"""The other locality graphs of Fig. 5: from conservative scopes, realized activity, and its importance (§4.1.1).

All three compare sets of primitives, where the graph of §4.1.1 compares sets of tracks; a primitive is then a track
of the views whose sets hold it. They need a model, and the last two a finished step, so they rank what is left of a
run; none can be made ahead of time.

Legend: V views, N primitives, A entries, K packed words.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odin.bitmap import row_ids, words
from odin.errors import InputError
from odin.planner.rlg import LocalityGraph, locality_graph
from odin.planner.settings import TOP_K
from odin.tracks import Tracks

TAU = 0.2  # Fig. 14


@dataclass(frozen=True, kw_only=True)
class Activity:
    """Which primitives each view activated (C), and its gradient there.

    offsets:   int64 [V+1], offsets[v]:offsets[v+1] are the entries of view v
    rows:      int32 [A], primitive ids 0…row_count-1
    norms:     float32 [A], gradient norm of the entry's primitive, ≥ 0
    row_count: N

    Raises InputError when the arrays do not describe such a table.
    """

    offsets: NDArray[np.int64]
    rows: NDArray[np.int32]
    norms: NDArray[np.float32]
    row_count: int

    def __post_init__(self) -> None:
        entries = len(self.rows)
        if self.offsets[0] != 0 or self.offsets[-1] != entries or np.any(np.diff(self.offsets) < 0):
            raise InputError(f"Activity offsets must rise from 0 to the number of entries ({entries}).")
        if entries and (self.rows.min() < 0 or self.rows.max() >= self.row_count):
            raise InputError(f"Activity names primitive {int(self.rows.max())}; there are {self.row_count}.")
        if self.norms.shape != (entries,) or not np.all(self.norms >= 0):
            raise InputError(f"Activity needs one gradient norm of at least 0 for each of {entries} entries.")

    @property
    def view_count(self) -> int:
        """V."""
        return len(self.offsets) - 1

    @property
    def view_of(self) -> NDArray[np.int32]:
        """View of each entry, int32 [A]."""
        return np.repeat(np.arange(self.view_count, dtype=np.int32), np.diff(self.offsets))

    def important(self, tau: float) -> NDArray[np.bool_]:
        """Entries that the gate holds back, bool [A]: norm > τ · mean over the view's entries."""
        counts = np.diff(self.offsets)
        sums = np.bincount(self.view_of, weights=self.norms, minlength=self.view_count)
        return self.norms > np.repeat(tau * sums / np.maximum(counts, 1), counts)


def geometry_graph(scopes: NDArray[np.uint64], row_count: int, *, top_k: int | None = TOP_K) -> LocalityGraph:
    """Jaccard similarity of conservative scopes R⁺, packed, uint64 [V, K]: early, and dense where views overlap.

    row_count: N. Without a model `frustum_graph` estimates the same from the cameras alone.
    Raises InputError if K does not fit N.
    """
    if scopes.ndim != 2 or scopes.shape[1] != words(row_count):
        raise InputError(f"Scopes of {row_count} primitives have shape [V, {words(row_count)}], not {scopes.shape}.")
    sets = [row_ids(scope, row_count) for scope in scopes]
    rows = np.concatenate([np.zeros(0, np.int32), *sets])
    views = np.repeat(np.arange(len(sets), dtype=np.int32), [len(ids) for ids in sets])
    return _graph_of_sets(views, rows, len(sets), row_count, top_k)


def computation_graph(activity: Activity, *, top_k: int | None = TOP_K) -> LocalityGraph:
    """Jaccard similarity of realized active sets: faithful, and known only after the views were trained."""
    return _graph_of_sets(activity.view_of, activity.rows, activity.view_count, activity.row_count, top_k)


def importance_graph(activity: Activity, *, tau: float = TAU, top_k: int | None = TOP_K) -> LocalityGraph:
    """Jaccard similarity of the active primitives with a gradient above τ · the view's mean (`Activity.important`).

    Raises InputError for a negative τ.
    """
    if not tau >= 0:
        raise InputError(f"tau={tau}; use 0 or more.")
    keep = activity.important(tau)
    return _graph_of_sets(activity.view_of[keep], activity.rows[keep], activity.view_count, activity.row_count, top_k)


def _graph_of_sets(
    views: NDArray[np.int32], rows: NDArray[np.int32], view_count: int, row_count: int, top_k: int | None
) -> LocalityGraph:
    """The graph of sets given as (view, primitive) entries, through the inverse mapping primitive → views."""
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=row_count))]).astype(np.int64)
    seen_by = Tracks(offsets=offsets, views=views[np.argsort(rows, kind="stable")], view_count=view_count)
    return locality_graph(seen_by, top_k=top_k)
