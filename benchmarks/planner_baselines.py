"""How shared tracks are usually counted: a sparse product, and a dictionary of pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations, pairwise

import numpy as np
import scipy.sparse as sp

from odin.planner import LocalityGraph, graph_from_pairs
from odin.tracks import Tracks

CAP = 64  # longer tracks are left out: fewer increments than drawing 64 of their images


def scipy_graph(tracks: Tracks) -> LocalityGraph:
    """A·Aᵀ of the incidence of views and tracks."""
    keep = _short(tracks)
    track = np.repeat(np.arange(tracks.track_count), np.diff(tracks.offsets))[keep]
    shape = (tracks.view_count, tracks.track_count)
    seen = sp.csr_array((np.ones(len(track), np.int32), (tracks.views[keep], track)), shape=shape)
    shared = sp.triu(seen @ seen.T, k=1, format="coo")
    sizes = np.asarray(seen.sum(axis=1)).ravel()
    union = sizes[shared.row] + sizes[shared.col] - shared.data
    return graph_from_pairs(shared.row, shared.col, shared.data / union, view_count=tracks.view_count)


def dict_graph(tracks: Tracks) -> LocalityGraph:
    """A counter of pairs, filled track by track in Python."""
    counts: Counter[tuple[int, int]] = Counter()
    offsets, views = tracks.offsets.tolist(), tracks.views.tolist()
    for lo, hi in pairwise(offsets):
        if hi - lo <= CAP:
            counts.update(combinations(sorted(views[lo:hi]), 2))
    pairs = np.array(list(counts), np.int64).reshape(-1, 2)
    shared = np.array(list(counts.values()))
    sizes = np.bincount(tracks.views[_short(tracks)], minlength=tracks.view_count)
    union = sizes[pairs[:, 0]] + sizes[pairs[:, 1]] - shared
    return graph_from_pairs(pairs[:, 0], pairs[:, 1], shared / union, view_count=tracks.view_count)


def _short(tracks: Tracks) -> np.ndarray:
    """Which observations belong to tracks of up to `CAP` views, bool [O]."""
    lengths = np.diff(tracks.offsets)
    return np.repeat(lengths <= CAP, lengths)


BASELINES: dict[str, Callable[[Tracks], LocalityGraph]] = {"scipy": scipy_graph, "dict": dict_graph}
