"""EWA projection of rows and its adjoint in one pass each; `render/projection.py` is the plain definition.

Inside a row everything is float64, which costs a scalar kernel nothing; outputs are rounded to float32 once.

Legend: M rows. `view` is the camera packed by `view.pack_camera`, float64 [8, 3].
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pipelines.render.conventions import ALPHA_MIN, DETERMINANT_FLOOR, DILATION, NEAR
from pipelines.render.vectors import HELPER, ROW, Vec, cross, dot, exp, log, log_scales, mix, vec
from pipelines.render.view import Loaded, View, load_view

Rows = NDArray[np.float32]


@njit(**HELPER)
def to_camera(geometry: Rows, i: int, view: Loaded) -> Vec:
    """Camera-space centre of row i."""
    p, shift = vec(geometry, i), view[3]
    return dot(view[0], p) + shift[0], dot(view[1], p) + shift[1], dot(view[2], p) + shift[2]


@njit(**HELPER)
def quaternion(geometry: Rows, i: int) -> tuple[float, float, float, float, float]:
    """Unit quaternion wxyz of row i and the norm of the stored one."""
    w, x = np.float64(geometry[i, 6]), np.float64(geometry[i, 7])
    y, z = np.float64(geometry[i, 8]), np.float64(geometry[i, 9])
    norm = max(math.sqrt(w * w + x * x + y * y + z * z), 1e-12)
    return w / norm, x / norm, y / norm, z / norm, norm


@njit(**HELPER)
def rotation_columns(w: float, x: float, y: float, z: float) -> tuple[Vec, Vec, Vec]:
    """Columns of the rotation matrix: the Gaussian's unit axes in world coordinates."""
    return (
        (1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)),
        (2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x)),
        (2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)),
    )


@njit(**HELPER)
def scales_of(geometry: Rows, i: int) -> Vec:
    """Standard deviations of row i along its axes, world units."""
    a, b, c = log_scales(geometry, i)
    return exp(a), exp(b), exp(c)


@njit(**HELPER)
def jacobian_rows(t: Vec, view: Loaded) -> tuple[Vec, Vec]:
    """Rows of Jacobian × world-to-camera rotation at camera-space t: f/z·(W_axis - clamped slope·W_z)."""
    right, down, forward, _, focal, _, limit, _ = view
    u = min(max(t[0] / t[2], -limit[0]), limit[0])
    v = min(max(t[1] / t[2], -limit[1]), limit[1])
    gain_x, gain_y = focal[0] / t[2], focal[1] / t[2]
    return mix(gain_x, right, -gain_x * u, forward), mix(gain_y, down, -gain_y * v, forward)


@njit(**HELPER)
def scaled_axes(row: Vec, columns: tuple[Vec, Vec, Vec], scales: Vec) -> Vec:
    """s_k · (row · column k)."""
    return scales[0] * dot(row, columns[0]), scales[1] * dot(row, columns[1]), scales[2] * dot(row, columns[2])


@njit(**HELPER)
def conic_of(a: Vec, b: Vec) -> Vec:
    """Inverse of [[a·a, a·b], [a·b, b·b]] + dilation, with the determinant as a sum of positive terms."""
    aa, bb, normal = dot(a, a), dot(b, b), cross(a, b)
    determinant = dot(normal, normal) + DILATION * (aa + bb) + DILATION * DILATION
    return (bb + DILATION) / determinant, -dot(a, b) / determinant, (aa + DILATION) / determinant


@njit(**HELPER)
def write_footprint(
    i: int, means: Rows, conics: Rows, opacities: Rows, grid: Vec, extents: Rows, radii: NDArray[np.int32]
) -> None:
    """Extents and radius of row i from its rounded outputs (see `projection.footprint`), if it touches a tile."""
    reach = 2.0 * log(max(np.float64(opacities[i]), 1e-300) / ALPHA_MIN)
    if not reach > 0.0:
        return
    x, y = np.float64(means[i, 0]), np.float64(means[i, 1])
    a, b, c = vec(conics, i)
    determinant = max(a * c - b * b, a * c * DETERMINANT_FLOOR)
    half_x = np.float32(math.sqrt(reach * (b * b + determinant) / (a * determinant)) + 1e-3)
    half_y = np.float32(math.sqrt(reach * a / determinant) + 1e-3)
    # Written so that a NaN is culled.
    if x + half_x >= 0.0 and x - half_x < grid[0] and y + half_y >= 0.0 and y - half_y < grid[1]:
        extents[i, 0], extents[i, 1] = half_x, half_y
        radii[i] = np.int32(min(math.ceil(np.float64(max(half_x, half_y))), 1e9))


@njit(**ROW)
def project_rows(
    geometry: Rows,
    view: View,
    means: Rows,
    conics: Rows,
    opacities: Rows,
    depths: Rows,
    extents: Rows,
    radii: NDArray[np.int32],
) -> None:
    """Fill the outputs [M, …] of `Projection` from geometry float32 [M, 11]."""
    camera = load_view(view)
    focal, centre, grid = camera[4], camera[5], camera[7]
    for i in range(geometry.shape[0]):
        t = to_camera(geometry, i, camera)
        depths[i] = t[2]
        extents[i, 0], extents[i, 1], radii[i] = -1.0, -1.0, 0
        if not t[2] > NEAR:
            means[i, 0], means[i, 1], opacities[i] = 0.0, 0.0, 0.0
            conics[i, 0], conics[i, 1], conics[i, 2] = 1.0, 0.0, 1.0
            continue
        w, x, y, z, _ = quaternion(geometry, i)
        columns, scales = rotation_columns(w, x, y, z), scales_of(geometry, i)
        across, down = jacobian_rows(t, camera)
        a, b, c = conic_of(scaled_axes(across, columns, scales), scaled_axes(down, columns, scales))
        conics[i, 0], conics[i, 1], conics[i, 2] = a, b, c
        means[i, 0] = t[0] / t[2] * focal[0] + centre[0]
        means[i, 1] = t[1] / t[2] * focal[1] + centre[1]
        opacities[i] = 1.0 / (1.0 + exp(-np.float64(geometry[i, 10])))
        write_footprint(i, means, conics, opacities, grid, extents, radii)


@njit(**HELPER)
def covariance_gradient(conic: Vec, grad: Vec) -> Vec:
    """Gradient of (a, b, c) = inverse of (xx, xy, yy), pulled back to (xx, xy, yy): -K·G·K."""
    a, b, c = conic
    g, h, k = grad
    return (
        -(a * a * g + a * b * h + b * b * k),
        -(2.0 * a * b * g + (a * c + b * b) * h + 2.0 * b * c * k),
        -(b * b * g + b * c * h + c * c * k),
    )


@njit(**HELPER)
def quaternion_gradient(
    unit: tuple[float, float, float, float, float], g0: Vec, g1: Vec, g2: Vec, out: Rows, i: int
) -> None:
    """Pull gradients of the rotation's columns back to the stored quaternion, columns 6–9 of out."""
    w, x, y, z, norm = unit
    gw = 2.0 * (x * (g1[2] - g2[1]) + y * (g2[0] - g0[2]) + z * (g0[1] - g1[0]))
    gx = 2.0 * (y * (g0[1] + g1[0]) + z * (g0[2] + g2[0]) + w * (g1[2] - g2[1]) - 2.0 * x * (g1[1] + g2[2]))
    gy = 2.0 * (x * (g0[1] + g1[0]) + z * (g1[2] + g2[1]) + w * (g2[0] - g0[2]) - 2.0 * y * (g0[0] + g2[2]))
    gz = 2.0 * (x * (g0[2] + g2[0]) + y * (g1[2] + g2[1]) + w * (g0[1] - g1[0]) - 2.0 * z * (g0[0] + g1[1]))
    along = w * gw + x * gx + y * gy + z * gz
    out[i, 6], out[i, 7] = (gw - along * w) / norm, (gx - along * x) / norm
    out[i, 8], out[i, 9] = (gy - along * y) / norm, (gz - along * z) / norm


@njit(**HELPER)
def point_gradient(t: Vec, grad_mean: Vec, grads: tuple[Vec, Vec], rows: tuple[Vec, Vec], view: Loaded) -> Vec:
    """Pull gradients of the screen position and of both Jacobian rows back to camera-space t."""
    forward, focal, limit = view[2], view[4], view[6]
    slope_x, slope_y = t[0] / t[2], t[1] / t[2]
    gx, gy = grad_mean[0] * focal[0], grad_mean[1] * focal[1]
    if abs(slope_x) < limit[0]:
        gx -= focal[0] / t[2] * dot(grads[0], forward)
    if abs(slope_y) < limit[1]:
        gy -= focal[1] / t[2] * dot(grads[1], forward)
    # At fixed slopes both rows are proportional to 1/z.
    shrink = dot(grads[0], rows[0]) + dot(grads[1], rows[1]) + gx * slope_x + gy * slope_y
    return gx / t[2], gy / t[2], -shrink / t[2]


@njit(**HELPER)
def project_row_backward(
    geometry: Rows, i: int, t: Vec, view: Loaded, grad_mean: Vec, grad_conic: Vec, out: Rows
) -> None:
    """Gradient of row i's centre, log-scales and quaternion."""
    unit, scales = quaternion(geometry, i), scales_of(geometry, i)
    c = rotation_columns(unit[0], unit[1], unit[2], unit[3])
    across, down = jacobian_rows(t, view)
    a, b = scaled_axes(across, c, scales), scaled_axes(down, c, scales)
    gxx, gxy, gyy = covariance_gradient(conic_of(a, b), grad_conic)
    ga, gb = mix(2.0 * gxx, a, gxy, b), mix(2.0 * gyy, b, gxy, a)
    # Through a_k = s_k · (across · c_k): the log-scale, then both factors of the product.
    out[i, 3] = ga[0] * a[0] + gb[0] * b[0]
    out[i, 4] = ga[1] * a[1] + gb[1] * b[1]
    out[i, 5] = ga[2] * a[2] + gb[2] * b[2]
    ha = ga[0] * scales[0], ga[1] * scales[1], ga[2] * scales[2]
    hb = gb[0] * scales[0], gb[1] * scales[1], gb[2] * scales[2]
    g0, g1, g2 = mix(ha[0], across, hb[0], down), mix(ha[1], across, hb[1], down), mix(ha[2], across, hb[2], down)
    quaternion_gradient(unit, g0, g1, g2, out, i)
    grad_across = mix(1.0, mix(ha[0], c[0], ha[1], c[1]), ha[2], c[2])
    grad_down = mix(1.0, mix(hb[0], c[0], hb[1], c[1]), hb[2], c[2])
    gt = point_gradient(t, grad_mean, (grad_across, grad_down), (across, down), view)
    g = mix(1.0, mix(gt[0], view[0], gt[1], view[1]), gt[2], view[2])
    out[i, 0], out[i, 1], out[i, 2] = g


@njit(**ROW)
def project_rows_backward(
    geometry: Rows,
    view: View,
    opacities: Rows,
    grad_means: Rows,
    grad_conics: Rows,
    grad_opacities: Rows,
    out: Rows,
) -> None:
    """Gradient float32 [M, 11] of `project_rows` into `out` (zeros on entry); culled rows stay zero."""
    camera = load_view(view)
    for i in range(geometry.shape[0]):
        t = to_camera(geometry, i, camera)
        if not t[2] > NEAR:
            continue
        o = np.float64(opacities[i])
        out[i, 10] = grad_opacities[i] * o * (1.0 - o)
        mean = (np.float64(grad_means[i, 0]), np.float64(grad_means[i, 1]), 0.0)
        conic = vec(grad_conics, i)
        if mean[0] != 0.0 or mean[1] != 0.0 or conic[0] != 0.0 or conic[1] != 0.0 or conic[2] != 0.0:
            project_row_backward(geometry, i, t, camera, mean, conic, out)
