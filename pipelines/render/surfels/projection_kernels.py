"""Projection of surfels to homographies and its adjoint, one pass each.

Inside a row everything is float64; outputs are rounded to float32 once. With camera-space centre t, unit tangents
a and b, slopes s = (t₀, t₁) / t₂ and

    A = f_x·(a₀ - s₀·a₂, b₀ - s₀·b₂)    B = f_y·(a₁ - s₁·a₂, b₁ - s₁·b₂)

(how fast image coordinates move along the tangents, times depth) the eight numbers of `protocol` are products of
these with the scales; see `homography`.

Legend: M rows. `view` is the camera packed by `view.pack_camera`, float64 [8, 3].
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pipelines.render.conventions import ALPHA_MIN, NEAR
from pipelines.render.cpu.projection_kernels import rotation_columns, to_camera
from pipelines.render.surfels.conventions import BOUND, LOW_PASS
from pipelines.render.vectors import HELPER, ROW, Vec, dot, exp, log, mix
from pipelines.render.view import Loaded, View, load_view

Rows = NDArray[np.float32]
Pair = tuple[float, float]
Eight = tuple[float, float, float, float, float, float, float, float]


@njit(**HELPER)
def tangents(geometry: Rows, i: int) -> tuple[tuple[float, float, float, float, float], float, float]:
    """Unit quaternion wxyz of row i with the norm of the stored one, and both standard deviations."""
    w, x = np.float64(geometry[i, 5]), np.float64(geometry[i, 6])
    y, z = np.float64(geometry[i, 7]), np.float64(geometry[i, 8])
    norm = max(math.sqrt(w * w + x * x + y * y + z * z), 1e-12)
    a, b = np.float64(geometry[i, 3]), np.float64(geometry[i, 4])
    su, sv = exp(a) + 0.0 * a, exp(b) + 0.0 * b  # NaN stays NaN
    return (w / norm, x / norm, y / norm, z / norm, norm), su, sv


@njit(**HELPER)
def turn(view: Loaded, p: Vec) -> Vec:
    """A world direction in camera space."""
    return dot(view[0], p), dot(view[1], p), dot(view[2], p)


@njit(**HELPER)
def turn_back(view: Loaded, p: Vec) -> Vec:
    """A camera-space direction in world space."""
    return mix(1.0, mix(p[0], view[0], p[1], view[1]), p[2], view[2])


@njit(**HELPER)
def image_tangents(t: Vec, a: Vec, b: Vec, focal: Vec) -> tuple[Pair, Pair]:
    """A and B of the module's head."""
    sx, sy = t[0] / t[2], t[1] / t[2]
    return (
        (focal[0] * (a[0] - sx * a[2]), focal[0] * (b[0] - sx * b[2])),
        (focal[1] * (a[1] - sy * a[2]), focal[1] * (b[1] - sy * b[2])),
    )


@njit(**HELPER)
def homography(t: Vec, a: Vec, b: Vec, su: float, sv: float, focal: Vec) -> Eight:
    """k₀ … k₇."""
    across, down = image_tangents(t, a, b, focal)
    gain_u, gain_v = t[2] / su, t[2] / sv
    determinant = across[0] * down[1] - across[1] * down[0]
    return (
        gain_u * down[1],
        -gain_u * across[1],
        -gain_v * down[0],
        gain_v * across[0],
        determinant,
        b[2] * down[0] - a[2] * down[1],
        a[2] * across[1] - b[2] * across[0],
        t[2] * determinant,
    )


@njit(**HELPER)
def reach_along(image: Pair, depth: Pair, z: float, reach2: float) -> Pair:
    """Least and largest offset on the screen of a disc u² + v² ≤ reach2 along one axis.

    image: scaled image tangents along the axis; depth: scaled depth tangents. The offset of (u, v) is
    image·(u, v) / (z + depth·(u, v)); it is extreme where a level line touches the circle. Needs z² > reach2·|depth|².
    """
    d = z * z - reach2 * (depth[0] * depth[0] + depth[1] * depth[1])
    lean = -reach2 * (image[0] * depth[0] + image[1] * depth[1])
    root = math.sqrt(max(lean * lean + d * reach2 * (image[0] * image[0] + image[1] * image[1]), 0.0))
    return (lean - root) / d, (lean + root) / d


@njit(**HELPER)
def disc_box(t: Vec, a: Vec, b: Vec, su: float, sv: float, focal: Vec, reach2: float) -> tuple[bool, Pair, Pair]:
    """Whether the disc stays in front of the camera, and its offsets from the projected centre along x and y."""
    depth = (su * a[2], sv * b[2])
    if not t[2] - math.sqrt(reach2 * (depth[0] * depth[0] + depth[1] * depth[1])) > BOUND:
        return False, (0.0, 0.0), (0.0, 0.0)
    across, down = image_tangents(t, a, b, focal)
    return (
        True,
        reach_along((su * across[0], sv * across[1]), depth, t[2], reach2),
        reach_along((su * down[0], sv * down[1]), depth, t[2], reach2),
    )


@njit(**HELPER)
def box_along(centre: float, disc: Pair, blur: float, bounded: bool, grid: float) -> tuple[np.float32, np.float32]:
    """Middle and half width of the box along one axis: the disc's and the low-pass filter's, or the whole grid."""
    low, high = min(disc[0], -blur), max(disc[1], blur)
    # 1e-3 px and 1e-5 of the size: what the rounded homography may shift the edge by.
    half = 0.5 * (high - low) * (1.0 + 1e-5) + 1e-3 + 1e-6 * abs(centre)
    middle = centre + 0.5 * (low + high)
    if not bounded:
        low, high = min(centre - blur, 0.0), max(centre + blur, grid)
        middle, half = 0.5 * (low + high), 0.5 * (high - low) + 1e-3
    return np.float32(middle), np.float32(half)


@njit(**HELPER)
def write_box(
    i: int,
    geometry: tuple[Vec, Vec, Vec, float, float],
    opacity: float,
    view: Loaded,
    middles: Rows,
    extents: Rows,
    radii: NDArray[np.int32],
) -> None:
    """Box and radius of row i, if it touches a tile: everywhere else alpha is below 1/255 or depth below NEAR."""
    reach2 = 2.0 * log(max(opacity, 1e-300) / ALPHA_MIN)
    t, a, b, su, sv = geometry
    # False for NaN in an opacity, a scale or a quaternion; `exp` would let a NaN pass.
    if not reach2 + 0.0 * (a[0] + b[0] + su + sv) > 0.0:
        return
    focal, centre, grid = view[4], view[5], view[7]
    bounded, along_x, along_y = disc_box(t, a, b, su, sv, focal, reach2)
    blur = math.sqrt(reach2 / LOW_PASS)
    x, half_x = box_along(t[0] / t[2] * focal[0] + centre[0], along_x, blur, bounded, grid[0])
    y, half_y = box_along(t[1] / t[2] * focal[1] + centre[1], along_y, blur, bounded, grid[1])
    # Written so that a NaN is culled.
    if x + half_x >= 0.0 and x - half_x < grid[0] and y + half_y >= 0.0 and y - half_y < grid[1]:
        middles[i, 0], middles[i, 1], extents[i, 0], extents[i, 1] = x, y, half_x, half_y
        radii[i] = np.int32(min(math.ceil(np.float64(max(half_x, half_y))), 1e9))


@njit(**ROW)
def project_surfels(
    geometry: Rows,
    view: View,
    means: Rows,
    transforms: Rows,
    normals: Rows,
    opacities: Rows,
    depths: Rows,
    middles: Rows,
    extents: Rows,
    radii: NDArray[np.int32],
) -> None:
    """Fill the outputs [M, …] of `SurfelProjection` from geometry float32 [M, 10]; all but depths zero on entry."""
    camera = load_view(view)
    focal, centre = camera[4], camera[5]
    for i in range(geometry.shape[0]):
        t = to_camera(geometry, i, camera)
        depths[i] = t[2]
        extents[i, 0], extents[i, 1], radii[i] = -1.0, -1.0, 0
        if not t[2] > NEAR:
            continue
        q, su, sv = tangents(geometry, i)
        c = rotation_columns(q[0], q[1], q[2], q[3])
        a, b, n = turn(camera, c[0]), turn(camera, c[1]), turn(camera, c[2])
        sign = -1.0 if dot(n, t) > 0.0 else 1.0
        k = homography(t, a, b, su, sv, focal)
        for j in range(8):
            transforms[i, j] = k[j]
        for j in range(3):
            normals[i, j] = sign * n[j]
        means[i, 0] = t[0] / t[2] * focal[0] + centre[0]
        means[i, 1] = t[1] / t[2] * focal[1] + centre[1]
        opacities[i] = 1.0 / (1.0 + exp(-np.float64(geometry[i, 9])))
        write_box(i, (t, a, b, su, sv), np.float64(opacities[i]), camera, middles, extents, radii)


@njit(**HELPER)
def quaternion_gradient(
    unit: tuple[float, float, float, float, float], g0: Vec, g1: Vec, g2: Vec
) -> tuple[float, float, float, float]:
    """Pull gradients of the rotation's columns back to the stored quaternion."""
    w, x, y, z, norm = unit
    gw = 2.0 * (x * (g1[2] - g2[1]) + y * (g2[0] - g0[2]) + z * (g0[1] - g1[0]))
    gx = 2.0 * (y * (g0[1] + g1[0]) + z * (g0[2] + g2[0]) + w * (g1[2] - g2[1]) - 2.0 * x * (g1[1] + g2[2]))
    gy = 2.0 * (x * (g0[1] + g1[0]) + z * (g1[2] + g2[1]) + w * (g2[0] - g0[2]) - 2.0 * y * (g0[0] + g2[2]))
    gz = 2.0 * (x * (g0[2] + g2[0]) + y * (g1[2] + g2[1]) + w * (g0[1] - g1[0]) - 2.0 * z * (g0[0] + g1[1]))
    along = w * gw + x * gx + y * gy + z * gz
    return (gw - along * w) / norm, (gx - along * x) / norm, (gy - along * y) / norm, (gz - along * z) / norm


@njit(**HELPER)
def homography_backward(
    t: Vec, a: Vec, b: Vec, su: float, sv: float, focal: Vec, g: Eight
) -> tuple[Vec, Vec, Vec, Pair, Pair]:
    """Pull gradients of k₀ … k₇ back to (slope x, slope y, depth), both tangents, the log-scales, and to the centre
    with the tangents' image held (upstream's densification statistic)."""
    across, down = image_tangents(t, a, b, focal)
    k = homography(t, a, b, su, sv, focal)
    gain_u, gain_v, z = t[2] / su, t[2] / sv, t[2]
    sx, sy = t[0] / z, t[1] / z
    shrink_u, shrink_v = g[0] * k[0] + g[1] * k[1], g[2] * k[2] + g[3] * k[3]
    whole = g[4] + g[7] * z
    au = whole * down[1] + g[3] * gain_v - g[6] * b[2]
    av = -whole * down[0] - g[1] * gain_u + g[6] * a[2]
    bu = -whole * across[1] - g[2] * gain_v + g[5] * b[2]
    bv = whole * across[0] + g[0] * gain_u - g[5] * a[2]
    ga = (
        focal[0] * au,
        focal[1] * bu,
        g[6] * across[1] - g[5] * down[1] - focal[0] * sx * au - focal[1] * sy * bu,
    )
    gb = (
        focal[0] * av,
        focal[1] * bv,
        g[5] * down[0] - g[6] * across[0] - focal[0] * sx * av - focal[1] * sy * bv,
    )
    held = (-(a[2] * au + b[2] * av), -(a[2] * bu + b[2] * bv))
    slopes = (focal[0] * held[0], focal[1] * held[1], (shrink_u + shrink_v) / z + g[7] * k[4])
    return slopes, ga, gb, (-shrink_u, -shrink_v), held


@njit(**HELPER)
def load_eight(table: Rows, i: int) -> Eight:
    """Row i as float64."""
    return (
        np.float64(table[i, 0]),
        np.float64(table[i, 1]),
        np.float64(table[i, 2]),
        np.float64(table[i, 3]),
        np.float64(table[i, 4]),
        np.float64(table[i, 5]),
        np.float64(table[i, 6]),
        np.float64(table[i, 7]),
    )


@njit(**ROW)
def project_surfels_backward(
    geometry: Rows,
    view: View,
    opacities: Rows,
    contributed: NDArray[np.bool_],
    grad_means: Rows,
    grad_transforms: Rows,
    grad_normals: Rows,
    grad_depths: Rows,
    grad_opacities: Rows,
    out: Rows,
    centres: Rows,
) -> None:
    """Gradient float32 [M, 10] into `out` and the statistic [M, 2] into `centres`; both zero on entry."""
    camera = load_view(view)
    focal = camera[4]
    for i in range(geometry.shape[0]):
        if not contributed[i]:
            continue
        t = to_camera(geometry, i, camera)
        q, su, sv = tangents(geometry, i)
        c = rotation_columns(q[0], q[1], q[2], q[3])
        a, b, n = turn(camera, c[0]), turn(camera, c[1]), turn(camera, c[2])
        sign = -1.0 if dot(n, t) > 0.0 else 1.0
        s, ga, gb, logs, held = homography_backward(t, a, b, su, sv, focal, load_eight(grad_transforms, i))
        gx, gy = np.float64(grad_means[i, 0]), np.float64(grad_means[i, 1])
        centres[i, 0], centres[i, 1] = gx + held[0], gy + held[1]
        slope_x, slope_y, depth = s[0] + focal[0] * gx, s[1] + focal[1] * gy, s[2] + np.float64(grad_depths[i])
        shift = (slope_x * t[0] + slope_y * t[1]) / (t[2] * t[2])
        gp = turn_back(camera, (slope_x / t[2], slope_y / t[2], depth - shift))
        gn = (sign * grad_normals[i, 0], sign * grad_normals[i, 1], sign * grad_normals[i, 2])
        gq = quaternion_gradient(q, turn_back(camera, ga), turn_back(camera, gb), turn_back(camera, gn))
        out[i, 0], out[i, 1], out[i, 2] = gp
        out[i, 3], out[i, 4] = logs
        out[i, 5], out[i, 6], out[i, 7], out[i, 8] = gq
        o = np.float64(opacities[i])
        out[i, 9] = grad_opacities[i] * o * (1.0 - o)
