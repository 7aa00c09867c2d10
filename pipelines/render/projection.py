"""EWA projection of 3D Gaussians as torch ops, for any device; `cpu/` has the same in fused kernels.

Every row is computed from its own columns by scalar operations: no matrix product and no reduction whose order
could depend on how many rows there are. Any superset of rows gives the same bits (D§5).

Legend: M rows. A vector is a tuple of its components, each [M]; the camera's are floats.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from pipelines.camera import Camera
from pipelines.render.conventions import ALPHA_MIN, DETERMINANT_FLOOR, DILATION, JACOBIAN_LIMIT, NEAR, TILE, tiles
from pipelines.render.elementwise import exp, log, sigmoid
from pipelines.render.protocol import Projection

Vector = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Constant = tuple[float, float, float]


def project(geometry: torch.Tensor, camera: Camera) -> Projection:
    """Project rows of one view (see `Projection`).

    geometry: float32 or float64 [M, 11] (columns.py order), may require grad. Rows at or behind the near plane
    are culled: they get finite values, negative extents and zero gradients.
    """
    x, y, z, *rest = geometry.t().contiguous().unbind(0)
    point = to_camera((x, y, z), camera)
    inside = point[2] > NEAR
    depths = torch.where(inside, point[2], 1.0)
    slope_x, slope_y = point[0] / depths, point[1] / depths
    rows = _jacobian_rows(slope_x, slope_y, depths, camera)
    columns, scales = rotation_columns(*rest[3:7]), (exp(rest[0]), exp(rest[1]), exp(rest[2]))
    conic = _conic(_axes(rows[0], columns, scales), _axes(rows[1], columns, scales))
    means2d = torch.stack(
        [
            torch.where(inside, slope_x * camera.fx + camera.cx, 0.0),
            torch.where(inside, slope_y * camera.fy + camera.cy, 0.0),
        ],
        dim=1,
    )
    conics = torch.stack(
        [torch.where(inside, value, idle) for value, idle in zip(conic, (1.0, 0.0, 1.0), strict=True)], dim=1
    )
    opacities = torch.where(inside, sigmoid(rest[7]), 0.0)
    extents, radii = footprint(means2d.detach(), conics.detach(), opacities.detach(), inside, camera)
    return Projection(
        means2d=means2d,
        conics=conics,
        opacities=opacities,
        depths=point[2].detach(),
        extents=extents,
        radii=radii,
    )


def footprint(
    means2d: torch.Tensor, conics: torch.Tensor, opacities: torch.Tensor, inside: torch.Tensor, camera: Camera
) -> tuple[torch.Tensor, torch.Tensor]:
    """Extents float32 [M, 2] and radii int32 [M] of projected rows (see `Projection`).

    The half widths are those of the ellipse o·exp(-q/2) = 1/255 of the rounded conic that the blend evaluates,
    plus 1e-3 px for its rounding: no fragment with alpha ≥ 1/255 is cut off. inside: bool [M].
    """
    a, b, c = conics.double().unbind(1)
    determinant = torch.maximum(a * c - b * b, a * c * DETERMINANT_FLOOR)
    reach = 2.0 * log(opacities.double() / ALPHA_MIN)
    grid = [TILE * n for n in tiles(camera.width, camera.height)]
    halves, touched = [], inside & (reach > 0.0)
    variances = ((b * b + determinant) / (a * determinant), a / determinant)
    for centre, variance, limit in zip(means2d.double().unbind(1), variances, grid, strict=True):
        half = (torch.sqrt(reach.clamp_min(0.0) * variance) + 1e-3).float()
        halves.append(half)
        touched = touched & (centre + half.double() >= 0.0) & (centre - half.double() < limit)
    extents = torch.where(touched[:, None], torch.stack(halves, dim=1), -1.0)
    radii = torch.ceil(extents.amax(dim=1)).clamp(0.0, 1e9).to(torch.int32)
    return extents, radii


def to_camera(point: Vector, camera: Camera) -> Vector:
    """World points in camera space."""
    x, y, z = (_dot(_floats(camera.rotation[k]), point) + float(camera.translation[k]) for k in range(3))
    return x, y, z


def _jacobian_rows(
    slope_x: torch.Tensor, slope_y: torch.Tensor, depths: torch.Tensor, camera: Camera
) -> tuple[Vector, Vector]:
    """Rows of Jacobian × world-to-camera rotation: f/z·(W_axis - clamped slope·W_z)."""
    right, down, forward = (_floats(row) for row in camera.rotation)
    limit_x, limit_y = JACOBIAN_LIMIT * camera.tan_x, JACOBIAN_LIMIT * camera.tan_y
    return (
        _jacobian_row(right, forward, slope_x.clamp(-limit_x, limit_x), camera.fx / depths),
        _jacobian_row(down, forward, slope_y.clamp(-limit_y, limit_y), camera.fy / depths),
    )


def _jacobian_row(across: Constant, forward: Constant, slope: torch.Tensor, gain: torch.Tensor) -> Vector:
    x, y, z = (gain * (a - slope * f) for a, f in zip(across, forward, strict=True))
    return x, y, z


def _axes(row: Vector, columns: tuple[Vector, Vector, Vector], scales: Vector) -> Vector:
    """The Gaussian's three axes along `row`: s_k · (row · column k of its rotation)."""
    x, y, z = (scale * _dot(row, column) for scale, column in zip(scales, columns, strict=True))
    return x, y, z


def rotation_columns(
    w: torch.Tensor, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor
) -> tuple[Vector, Vector, Vector]:
    """Columns of the rotation of quaternions wxyz, which need not be normalised."""
    norm = torch.sqrt((w * w + x * x + y * y + z * z).clamp_min(1e-24))
    w, x, y, z = w / norm, x / norm, y / norm, z / norm
    return (
        (1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)),
        (2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x)),
        (2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)),
    )


def _conic(a: Vector, b: Vector) -> Vector:
    """Inverse of [[a·a, a·b], [a·b, b·b]] + dilation, each [M] of the rows' dtype.

    The determinant is |a × b|² + d(a·a + b·b) + d²: a sum of positive terms, where the textbook difference
    loses all digits of a thin row. float64, so that only the rounding of the result is left (`cull_kernels.py`
    counts on it).
    """
    dtype = a[0].dtype
    a, b = (a[0].double(), a[1].double(), a[2].double()), (b[0].double(), b[1].double(), b[2].double())
    aa, ab, bb = _dot(a, a), _dot(a, b), _dot(b, b)
    normal = _cross(a, b)
    determinant = _dot(normal, normal) + DILATION * (aa + bb) + DILATION * DILATION
    conic = (bb + DILATION) / determinant, -ab / determinant, (aa + DILATION) / determinant
    return conic[0].to(dtype), conic[1].to(dtype), conic[2].to(dtype)


def _dot(a: Vector | Constant, b: Vector) -> torch.Tensor:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def _floats(values: NDArray[np.float64]) -> Constant:
    x, y, z = (float(v) for v in values)
    return x, y, z
