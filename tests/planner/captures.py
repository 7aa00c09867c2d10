"""Small captures for the planner's tests: random track tables, and a ring whose locality is known."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from odin.tracks import Tracks


def tracks_from(lists: list[list[int]], view_count: int) -> Tracks:
    """Track table from one list of views per track."""
    lengths = [len(views) for views in lists]
    return Tracks(
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        views=np.array([v for views in lists for v in views], np.int32),
        view_count=view_count,
    )


@st.composite
def track_lists(draw: st.DrawFn, max_views: int = 30) -> tuple[list[list[int]], int]:
    """Tracks of any length (0 and 1 too), with repeated observations and views that see nothing."""
    count = draw(st.integers(1, max_views))
    seen = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=count, unique=True))
    track = st.lists(st.sampled_from(seen), max_size=8)
    return draw(st.lists(track, max_size=40)), count


def ring(view_count: int, reach: int = 4) -> tuple[Tracks, NDArray[np.float64]]:
    """Cameras on a circle; point p is seen by the `reach` views that follow place p. Tracks and centres."""
    angle = 2 * np.pi * np.arange(view_count) / view_count
    centres = np.stack([np.cos(angle), np.sin(angle), np.zeros(view_count)], axis=1)
    lists = [[(p + i) % view_count for i in range(reach)] for p in range(view_count)]
    return tracks_from(lists, view_count), centres


def scattered(view_count: int, seed: int = 0) -> NDArray[np.float64]:
    """Camera centres without structure, [V, 3]."""
    return np.random.default_rng(seed).normal(size=(view_count, 3))


def visits_after(units: NDArray[np.int32], view_count: int) -> NDArray[np.int64]:
    """How often each view was trained after each step, [S, V]."""
    counts = [np.bincount(step.ravel(), minlength=view_count) for step in units]
    return np.cumsum(np.array(counts).reshape(len(units), view_count), axis=0)
