"""A camera as the kernels want it: one small float64 table."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pipelines.camera import Camera
from pipelines.render.conventions import JACOBIAN_LIMIT, TILE, tiles
from pipelines.render.vectors import HELPER, Vec

View = NDArray[np.float64]
Loaded = tuple[Vec, Vec, Vec, Vec, Vec, Vec, Vec, Vec]


def pack_camera(camera: Camera) -> View:
    """The camera's numbers as float64 [8, 3].

    Rows: world-to-camera rotation (3) and translation; then (x, y) of the focal lengths, the principal point, the
    Jacobian's largest slopes, and the size of the tile grid in pixels, which may exceed the image.
    """
    columns, rows = tiles(camera.width, camera.height)
    view = np.zeros((8, 3))
    view[:3], view[3] = camera.rotation, camera.translation
    view[4, :2] = camera.fx, camera.fy
    view[5, :2] = camera.cx, camera.cy
    view[6, :2] = JACOBIAN_LIMIT * camera.tan_x, JACOBIAN_LIMIT * camera.tan_y
    view[7, :2] = TILE * columns, TILE * rows
    return view


@njit(**HELPER)
def load_view(view: View) -> Loaded:
    """The packed camera in registers: a kernel's stores could alias the table."""
    return (
        (view[0, 0], view[0, 1], view[0, 2]),
        (view[1, 0], view[1, 1], view[1, 2]),
        (view[2, 0], view[2, 1], view[2, 2]),
        (view[3, 0], view[3, 1], view[3, 2]),
        (view[4, 0], view[4, 1], view[4, 2]),
        (view[5, 0], view[5, 1], view[5, 2]),
        (view[6, 0], view[6, 1], view[6, 2]),
        (view[7, 0], view[7, 1], view[7, 2]),
    )
