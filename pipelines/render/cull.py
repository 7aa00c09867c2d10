"""Scopes of views: which rows may touch a tile, whatever their unpublished updates turn out to be (D§6 Scopes).

Legend: N rows, V views.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from odin.bitmap import unpack, words
from odin.dense import dense
from odin.inflation import Inflation
from pipelines.camera import Camera
from pipelines.render.cull_kernels import cull_table
from pipelines.render.view import pack_camera

Geometry = NDArray[np.float32] | torch.Tensor


def cull(geometry: Geometry, camera: Camera, inflation: Inflation) -> NDArray[np.bool_]:
    """Conservative mask bool [N] of the rows that may touch a tile of one view.

    Contains every row whose `Projection.radii` is positive after its centre has moved by at most `shift` and no
    log-scale has grown by more than `growth` beyond the largest, whatever its rotation and opacity.

    geometry: float32 [N, 11] (columns.py order), numpy or a CPU tensor, contiguous or a slice of a wider table.
    inflation: one class per row; `Inflation.none(N)` is the plain predicate. Raises ValueError if it does not fit.
    """
    return cull_many(geometry, [camera], inflation)[0]


def cull_many(geometry: Geometry, cameras: Sequence[Camera], inflation: Inflation) -> NDArray[np.bool_]:
    """`cull` for many views, bool [V, N], the same masks; the table is read once."""
    return unpack(cull_packed(geometry, cameras, inflation), len(geometry))


def cull_packed(
    geometry: Geometry, cameras: Sequence[Camera] | NDArray[np.float64], inflation: Inflation
) -> NDArray[np.uint64]:
    """`cull_many` as bitmaps (odin/bitmap.py), uint64 [V, words(N)].

    cameras: views, or the same already packed, float64 [V, 8, 3] (pack_camera).

    Blocks of 64 rows are tested first, which pays where neighbours in the table are neighbours in space (Morton
    order). Needs no memory beside its result.
    """
    rows = require_rows(geometry, inflation, columns=11)
    packed = cameras if isinstance(cameras, np.ndarray) else pack_cameras(cameras)
    bits = np.empty((len(packed), words(len(rows))), np.uint64)
    level, shift, growth = inflation_classes(inflation)
    highest = cull_table(rows, level, shift, growth, packed, bits)
    if highest >= len(shift):
        raise ValueError(f"inflation has a row of class {highest}, but only {len(shift)} classes")
    return bits


def pack_cameras(cameras: Sequence[Camera]) -> NDArray[np.float64]:
    """Packed views, float64 [V, 8, 3]."""
    return np.array([pack_camera(camera) for camera in cameras]).reshape(-1, 8, 3)


def require_rows(geometry: Geometry, inflation: Inflation, *, columns: int) -> NDArray[np.float32]:
    """The geometry [N, columns] as a kernel reads it; ValueError if it does not fit."""
    array = geometry.detach().numpy() if isinstance(geometry, torch.Tensor) else geometry
    if array.ndim != 2 or array.shape[1] != columns:
        raise ValueError(f"geometry has shape {array.shape}, expected [N, {columns}]")
    if len(inflation.level) != len(array):
        raise ValueError(f"inflation has {len(inflation.level)} rows, geometry has {len(array)}")
    if not len(inflation.shift) or not len(inflation.growth):
        raise ValueError("inflation has no classes")
    if array.dtype == np.float32 and array.flags.behaved:
        return array  # a slice of a wider table is read where it is
    return np.require(array, np.float32, ["A", "W"])


def inflation_classes(inflation: Inflation) -> tuple[NDArray[np.uint8], NDArray[np.float64], NDArray[np.float64]]:
    """Levels, and shifts and growths of the classes that have both, as the kernels read them."""
    classes = min(len(inflation.shift), len(inflation.growth))
    shift, growth = dense(inflation.shift, np.float64), dense(inflation.growth, np.float64)
    return dense(inflation.level, np.uint8), shift[:classes], growth[:classes]
