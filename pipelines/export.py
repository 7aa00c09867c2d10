"""PLY files in the layout of 3DGS: x y z nx ny nz f_dc_0..2 f_rest_0..44 opacity scale_0..2 rot_0..3.

Surfels (2DGS) have scale_0..1; the number of columns of a table, or of scales in a file, tells them apart.

Opacity is a logit, scales are logs, rotations are wxyz and not normalised. f_rest is channel-major on disk (all
15 coefficients of red, then green, then blue), coefficient-major in the table.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from plyfile import PlyData, PlyElement

from odin.errors import InputError
from odin.writing import about_to_replace
from pipelines import columns, surfel_columns
from pipelines.columns import XYZ

_REST = 15


def fields(scales: int) -> list[str]:
    """Names of the vertex properties of primitives with 3 scales, or 2 (surfels)."""
    return (
        ["x", "y", "z", "nx", "ny", "nz"]
        + [f"f_dc_{i}" for i in range(3)]
        + [f"f_rest_{i}" for i in range(3 * _REST)]
        + ["opacity"]
        + [f"scale_{i}" for i in range(scales)]
        + [f"rot_{i}" for i in range(4)]
    )


FIELDS = fields(3)


def write_ply(path: Path, parameters: NDArray[np.float32]) -> None:
    """Write a table, float32 [N, 59] or [N, 58] (surfels), to a temporary name and rename it. Raises OSError."""
    layout = surfel_columns if parameters.shape[1] == surfel_columns.COLUMNS else columns
    rest = parameters[:, layout.F_REST].reshape(-1, _REST, 3).transpose(0, 2, 1).reshape(len(parameters), -1)
    normals = np.zeros((len(parameters), 3), np.float32)
    blocks = [parameters[:, XYZ], normals, parameters[:, layout.F_DC], rest]
    blocks += [parameters[:, layout.OPACITY], parameters[:, layout.SCALE], parameters[:, layout.ROTATION]]
    values = np.concatenate(blocks, axis=1).astype("<f4")
    vertices = values.view([(name, "<f4") for name in fields(layout.SCALE.stop - layout.SCALE.start)]).reshape(-1)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        PlyData([PlyElement.describe(vertices, "vertex")]).write(str(temporary))
        about_to_replace(temporary, path)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_ply(path: Path) -> NDArray[np.float32]:
    """Read a PLY of 3DGS or 2DGS back into a table, float32 [N, 59] or [N, 58]. Raises InputError naming missing
    fields."""
    vertex = PlyData.read(str(path))["vertex"]
    layout = columns if "scale_2" in vertex.data.dtype.names else surfel_columns
    wanted = fields(layout.SCALE.stop - layout.SCALE.start)
    missing = [f for f in wanted if f not in vertex.data.dtype.names]
    if missing:
        raise InputError(
            f"{path} lacks the vertex fields {missing[:5]}; a PLY of SH degree 3 has {len(FIELDS)} (3DGS) or "
            f"{len(FIELDS) - 1} (2DGS). Export it again with all SH coefficients."
        )
    values = np.stack([np.asarray(vertex[name], np.float32) for name in wanted], axis=1)
    table = np.empty((len(values), layout.COLUMNS), np.float32)
    table[:, XYZ], table[:, layout.F_DC] = values[:, 0:3], values[:, 6:9]
    table[:, layout.F_REST] = values[:, 9:54].reshape(-1, 3, _REST).transpose(0, 2, 1).reshape(len(values), -1)
    rotation = wanted.index("rot_0")
    table[:, layout.OPACITY], table[:, layout.SCALE] = values[:, 54:55], values[:, 55:rotation]
    table[:, layout.ROTATION] = values[:, rotation:]
    return table
