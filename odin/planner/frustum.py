"""Coupling without tracks: how far the views' frusta overlap (geometry-based graph, §4.1.1).

Coarser than tracks: two frusta may overlap where the views see different surfaces. It only ranks.
Legend: V views, M pairs, Q sample points of a frustum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from odin.errors import InputError
from odin.planner.rlg import TOP_K, LocalityGraph, graph_from_pairs

# Depth range relative to the spread of the camera centres. A ring of cameras that look inwards (spread =
# radius) sees to the far side of the ring; nearer than a tenth of it there is rarely anything to share.
NEAR, FAR = 0.1, 2.0
SAMPLES = (5, 5, 6)  # points across, down and in depth
CANDIDATES = 256  # nearest cameras compared; all pairs would be 1.25 billion for 50,000 views
CHUNK = 2048  # pairs compared at once: 2048 · 150 points · 3 doubles = 7 MB


@dataclass(frozen=True, kw_only=True)
class Frusta:
    """Viewing volumes of V cameras.

    centres:   float64 [V, 3], camera centres in world units
    rotations: float64 [V, 3, 3], world → camera (x right, y down, z forward)
    tan_x, tan_y: float64 [V], tangents of half the fields of view

    Raises InputError when the arrays do not belong together.
    """

    centres: NDArray[np.float64]
    rotations: NDArray[np.float64]
    tan_x: NDArray[np.float64]
    tan_y: NDArray[np.float64]

    def __post_init__(self) -> None:
        count = len(self.centres)
        shapes = (self.centres.shape, self.rotations.shape, self.tan_x.shape, self.tan_y.shape)
        if shapes != ((count, 3), (count, 3, 3), (count,), (count,)):
            raise InputError(f"Frusta need centres [V, 3], rotations [V, 3, 3], tan_x and tan_y [V], not {shapes}.")

    @property
    def depth_range(self) -> tuple[float, float]:
        """Near and far depth in world units, from the spread of the centres (1 if they coincide)."""
        offset = self.centres - self.centres.mean(axis=0)
        spread = float(np.linalg.norm(offset, axis=1).max()) or 1.0
        return NEAR * spread, FAR * spread


def frustum_graph(frusta: Frusta, *, top_k: int | None = TOP_K) -> LocalityGraph:
    """Graph of the frusta's volume ratios |intersection| / |union|, estimated by sampling.

    Each view is compared with its `CANDIDATES` nearest cameras.
    """
    first, second = _candidate_pairs(frusta.centres)
    weight = np.zeros(len(first))
    points = _sample_points(frusta)
    for start in range(0, len(first), CHUNK):
        part = slice(start, start + CHUNK)
        weight[part] = _volume_ratio(frusta, points, first[part], second[part])
    return graph_from_pairs(first, second, weight, view_count=len(frusta.centres), top_k=top_k)


def _candidate_pairs(centres: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Distinct unordered pairs of each view with its nearest ones, two arrays [M]."""
    count = len(centres)
    if count <= CANDIDATES + 1:
        first, second = np.triu_indices(count, k=1)
        return first, second
    near = cKDTree(centres).query(centres, k=CANDIDATES + 1)[1]
    here = np.repeat(np.arange(count), near.shape[1])
    there = near.ravel()
    key = np.unique(np.minimum(here, there) * count + np.maximum(here, there))
    first, second = key // count, key % count
    return first[first != second], second[first != second]


def _sample_points(frusta: Frusta) -> NDArray[np.float64]:
    """World points spread evenly over the volume of each frustum, [V, Q, 3]."""
    near, far = frusta.depth_range
    x, y, q = (axis.ravel() for axis in np.meshgrid(*((np.arange(n) + 0.5) / n for n in SAMPLES), indexing="ij"))
    depth = np.cbrt(near**3 + q * (far**3 - near**3))  # the section grows with depth²
    local = np.stack(
        [
            (2 * x - 1) * depth * frusta.tan_x[:, None],
            (2 * y - 1) * depth * frusta.tan_y[:, None],
            np.broadcast_to(depth, (len(frusta.tan_x), len(depth))),
        ],
        axis=-1,
    )
    return local @ frusta.rotations + frusta.centres[:, None]


def _volume_ratio(
    frusta: Frusta, points: NDArray[np.float64], first: NDArray[np.int64], second: NDArray[np.int64]
) -> NDArray[np.float64]:
    """|intersection| / |union| of M pairs, [M]."""
    volume = frusta.tan_x * frusta.tan_y  # up to a factor that all frusta share
    one, two = volume[first], volume[second]
    # Each view's samples estimate the same intersection; the mean of both makes the ratio symmetric.
    both = 0.5 * (one * _share_inside(frusta, points[first], second))
    both += 0.5 * (two * _share_inside(frusta, points[second], first))
    return both / (one + two - both)


def _share_inside(frusta: Frusta, points: NDArray[np.float64], view: NDArray[np.int64]) -> NDArray[np.float64]:
    """Share of each row of points [M, Q, 3] that lies in the frustum of its view [M]."""
    near, far = frusta.depth_range
    local = (points - frusta.centres[view, None]) @ frusta.rotations[view].transpose(0, 2, 1)
    x, y, depth = local[..., 0], local[..., 1], local[..., 2]
    inside = (depth >= near) & (depth <= far)
    inside &= np.abs(x) <= depth * frusta.tan_x[view, None]
    inside &= np.abs(y) <= depth * frusta.tan_y[view, None]
    return inside.mean(axis=1)
