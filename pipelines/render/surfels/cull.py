"""Scopes of views for surfels, as `render/cull.py` takes them for 3D Gaussians (D§6 Scopes).

Legend: N rows, V views.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from odin.bitmap import unpack, words
from odin.inflation import Inflation
from pipelines.camera import Camera
from pipelines.render.cull import Geometry, inflation_classes, pack_cameras, require_rows
from pipelines.render.surfels.cull_kernels import cull_surfels


def cull_packed(
    geometry: Geometry, cameras: Sequence[Camera] | NDArray[np.float64], inflation: Inflation
) -> NDArray[np.uint64]:
    """Conservative bitmaps uint64 [V, words(N)] of the surfels that may touch a tile of each view.

    Contains every row whose `SurfelProjection.radii` is positive after its centre has moved by at most `shift` and no
    log-scale has grown by more than `growth` beyond the largest, whatever its rotation and opacity.

    geometry: float32 [N, 10] (surfel_columns.py order), numpy or a CPU tensor, contiguous or a slice of a wider
    table. cameras: views, or the same already packed, float64 [V, 8, 3] (pack_camera). Raises ValueError if geometry
    or inflation do not fit.
    """
    rows = require_rows(geometry, inflation, columns=10)
    bits = np.empty((len(cameras), words(len(rows))), np.uint64)
    views = cameras if isinstance(cameras, np.ndarray) else pack_cameras(cameras)
    level, shift, growth = inflation_classes(inflation)
    if len(level) and int(level.max()) >= len(shift):
        raise ValueError(f"inflation has a row of class {level.max()}, but only {len(shift)} classes")
    cull_surfels(rows, level, shift, growth, views, bits)
    return bits


def cull_many(geometry: Geometry, cameras: Sequence[Camera], inflation: Inflation) -> NDArray[np.bool_]:
    """`cull_packed` as masks, bool [V, N]."""
    return unpack(cull_packed(geometry, cameras, inflation), len(geometry))
