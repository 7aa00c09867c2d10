"""PLY files in the layout of 3DGS: x y z nx ny nz f_dc_0..2 f_rest_0..44 opacity scale_0..2 rot_0..3.

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
from pipelines.columns import COLUMNS, F_DC, F_REST, OPACITY, ROTATION, SCALE, XYZ

_REST = 15
FIELDS = (
    ["x", "y", "z", "nx", "ny", "nz"]
    + [f"f_dc_{i}" for i in range(3)]
    + [f"f_rest_{i}" for i in range(3 * _REST)]
    + ["opacity"]
    + [f"scale_{i}" for i in range(3)]
    + [f"rot_{i}" for i in range(4)]
)


def write_ply(path: Path, parameters: NDArray[np.float32]) -> None:
    """Write a table, float32 [N, 59], to a temporary name and rename it."""
    rest = parameters[:, F_REST].reshape(-1, _REST, 3).transpose(0, 2, 1).reshape(len(parameters), -1)
    normals = np.zeros((len(parameters), 3), np.float32)
    blocks = [parameters[:, XYZ], normals, parameters[:, F_DC], rest]
    blocks += [parameters[:, OPACITY], parameters[:, SCALE], parameters[:, ROTATION]]
    values = np.concatenate(blocks, axis=1).astype("<f4")
    vertices = values.view([(name, "<f4") for name in FIELDS]).reshape(-1)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    PlyData([PlyElement.describe(vertices, "vertex")]).write(str(temporary))
    temporary.replace(path)


def read_ply(path: Path) -> NDArray[np.float32]:
    """Read a 3DGS PLY back into a table, float32 [N, 59]. Raises InputError naming missing fields."""
    vertex = PlyData.read(str(path))["vertex"]
    missing = [f for f in FIELDS if f not in vertex.data.dtype.names]
    if missing:
        raise InputError(
            f"{path} lacks the vertex fields {missing[:5]}; a 3DGS PLY of SH degree 3 has {len(FIELDS)}. Export it "
            "again with all SH coefficients."
        )
    values = np.stack([np.asarray(vertex[name], np.float32) for name in FIELDS], axis=1)
    table = np.empty((len(values), COLUMNS), np.float32)
    table[:, XYZ], table[:, F_DC] = values[:, 0:3], values[:, 6:9]
    table[:, F_REST] = values[:, 9:54].reshape(-1, 3, _REST).transpose(0, 2, 1).reshape(len(values), -1)
    table[:, OPACITY], table[:, SCALE], table[:, ROTATION] = values[:, 54:55], values[:, 55:58], values[:, 58:62]
    return table
