"""The 58 columns of a surfel (2DGS) in the parameter table: those of a 3D Gaussian without the third scale.

Geometry (10 columns) is all that projection and binning read; colours are laid out as in `columns.py`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from odin.layout import ColumnGroup, ColumnLayout
from pipelines import columns

XYZ = slice(0, 3)  # world units
SCALE = slice(3, 5)  # log of the standard deviations along the two tangents
ROTATION = slice(5, 9)  # quaternion wxyz, not normalised; its third axis is the normal
OPACITY = slice(9, 10)  # logit
F_DC = slice(10, 13)
F_REST = slice(13, 58)

GEOMETRY = slice(0, 10)
COLOUR = slice(10, 58)
COLUMNS = 58

LAYOUT = ColumnLayout(
    groups=(
        ColumnGroup(name="geometry", first=GEOMETRY.start, last=GEOMETRY.stop),
        ColumnGroup(name="colour", first=COLOUR.start, last=COLOUR.stop),
    )
)

# Log of the thickness that stands for none: far below both scales and every distance, and its exponential is normal.
_FLAT = -50.0


def as_ellipsoids(table: NDArray[np.float32]) -> NDArray[np.float32]:
    """Surfels float32 [N, 58] as ellipsoids of no thickness, float32 [N, 59] (columns.py order)."""
    return np.insert(table, columns.SCALE.stop - 1, np.float32(_FLAT), axis=1)


def from_ellipsoids(table: NDArray[np.float32]) -> NDArray[np.float32]:
    """Drop the third scale: float32 [N, 59] → [N, 58]."""
    return np.ascontiguousarray(np.delete(table, columns.SCALE.stop - 1, axis=1))
