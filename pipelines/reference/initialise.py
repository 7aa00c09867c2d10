"""The initial table from SfM points, as 3DGS does it.

Legend: P points, N primitives.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from odin.errors import InputError
from pipelines.camera import Camera
from pipelines.capture import Capture
from pipelines.columns import COLUMNS, F_DC, OPACITY, ROTATION, SCALE, XYZ
from pipelines.reference.settings import Settings
from pipelines.render.sh import C0

INITIAL_OPACITY = 0.1
_MIN_SQUARED_DISTANCE = 1e-7  # upstream's floor, for duplicate points


def scene_extent(cameras: tuple[Camera, ...] | list[Camera]) -> float:
    """1.1 × the largest distance of a training camera from their mean centre (upstream's spatial scale)."""
    centres = np.stack([c.centre for c in cameras])
    reach = np.linalg.norm(centres - centres.mean(axis=0), axis=1).max()
    return float(reach * 1.1) or 1.0


def initial_parameters(capture: Capture, settings: Settings) -> torch.Tensor:
    """float32 [N, 59]: positions and colours of a seeded subsample of the points, isotropic scales from the three
    nearest neighbours, opacity 0.1. Raises InputError when fewer than four points remain."""
    keep = subsample(len(capture.points), settings)
    points = capture.points[keep] * (1.0 + settings.perturb)
    if len(points) < 4:
        raise InputError(
            f"Scene {capture.name!r} has {len(capture.points)} SfM points, of which {len(points)} are used; 3DGS "
            "needs at least 4 to set initial sizes. Check the COLMAP model or raise pipeline.initial_subsample."
        )
    table = np.zeros((len(points), COLUMNS), np.float32)
    table[:, XYZ] = points
    table[:, SCALE] = np.log(_neighbour_distance(points))[:, None]
    table[:, ROTATION.start] = 1.0
    table[:, OPACITY] = np.log(INITIAL_OPACITY / (1 - INITIAL_OPACITY))
    table[:, F_DC] = (capture.colours[keep] / 255.0 - 0.5) / C0
    return torch.from_numpy(table)


def subsample(count: int, settings: Settings) -> NDArray[np.int64]:
    """The points of so many that a run starts from, by its seed; ascending."""
    rng = np.random.default_rng(np.random.SeedSequence([settings.seed, 0x1417]))
    kept = round(count * settings.initial_subsample)
    return np.sort(rng.permutation(count)[:kept])


def _neighbour_distance(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Root mean squared distance to the three nearest other points, [P]."""
    distance, _ = cKDTree(points).query(points, k=4)
    return np.sqrt(np.maximum((distance[:, 1:] ** 2).mean(axis=1), _MIN_SQUARED_DISTANCE))
