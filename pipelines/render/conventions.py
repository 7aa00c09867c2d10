"""The numbers that 3DGS renderers agree on.

Numba freezes them into its cached kernels and does not notice a change here: delete `__pycache__` after one.
"""

from __future__ import annotations

NEAR = 0.2  # view-space z at or below which a row is culled
JACOBIAN_LIMIT = 1.3  # the Jacobian's slopes are clamped at this multiple of tan(fov / 2)
DILATION = 0.3  # px² added to both variances, so that no row is thinner than a pixel
TILE = 16  # pixels
ALPHA_MIN = 1.0 / 255.0  # fragments below are skipped
ALPHA_MAX = 0.99  # alpha is clamped here; a clamped fragment gives no gradient to opacity and geometry
TRANSMITTANCE_MIN = 1e-4  # a pixel stops before the fragment that would take it below
DETERMINANT_FLOOR = 1e-7  # share of a·c; holds float32 conics that are singular to rounding (condition > 1e7)
MAX_DEGREE = 3  # of spherical harmonics, 16 coefficients


def tiles(width: int, height: int) -> tuple[int, int]:
    """Columns and rows of 16×16 tiles that cover an image; the grid may exceed it."""
    return -(-width // TILE), -(-height // TILE)
