"""Colours from spherical harmonics and their adjoint, one pass each; `render/sh.py` is the plain definition.

Legend: M rows; coefficient-major columns 3·k + channel. Directions and basis are float64, sums per row.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pipelines.render.sh import C0, C1, C2, C3
from pipelines.render.vectors import HELPER, ROW, Vec, dot, mix, vec

Rows = NDArray[np.float32]
Doubles = NDArray[np.float64]

A0, A1, A2, A3, A4 = C2
B0, B1, B2, B3, B4, B5, B6 = C3


@njit(**HELPER)
def direction(geometry: Rows, i: int, centre: Vec) -> tuple[Vec, float]:
    """Unit vector from the camera centre to row i, and the distance."""
    d = mix(1.0, vec(geometry, i), -1.0, centre)
    norm = max(math.sqrt(dot(d, d)), 1e-12)
    return (d[0] / norm, d[1] / norm, d[2] / norm), norm


@njit(**HELPER)
def fill_basis(d: Vec, out: Doubles) -> None:
    """All 16 basis functions at a unit vector; out [16]."""
    x, y, z = d
    xx, yy, zz = x * x, y * y, z * z
    out[0], out[1], out[2], out[3] = C0, -C1 * y, C1 * z, -C1 * x
    out[4], out[5], out[6] = A0 * x * y, A1 * y * z, A2 * (2.0 * zz - xx - yy)
    out[7], out[8] = A3 * x * z, A4 * (xx - yy)
    out[9], out[10], out[11] = B0 * y * (3.0 * xx - yy), B1 * x * y * z, B2 * y * (4.0 * zz - xx - yy)
    out[12] = B3 * z * (2.0 * zz - 3.0 * xx - 3.0 * yy)
    out[13], out[14], out[15] = B4 * x * (4.0 * zz - xx - yy), B5 * z * (xx - yy), B6 * x * (xx - 3.0 * yy)


@njit(**HELPER)
def basis_gradient(d: Vec, g: Doubles) -> Vec:
    """Pull gradients of the 16 basis functions back to the direction (as free components)."""
    x, y, z = d
    xx, yy, zz, xy, yz, xz = x * x, y * y, z * z, x * y, y * z, x * z
    gx = -C1 * g[3] + A0 * y * g[4] - 2.0 * A2 * x * g[6] + A3 * z * g[7] + 2.0 * A4 * x * g[8]
    gy = -C1 * g[1] + A0 * x * g[4] + A1 * z * g[5] - 2.0 * A2 * y * g[6] - 2.0 * A4 * y * g[8]
    gz = C1 * g[2] + A1 * y * g[5] + 4.0 * A2 * z * g[6] + A3 * x * g[7]
    gx += 6.0 * B0 * xy * g[9] + B1 * yz * g[10] - 2.0 * B2 * xy * g[11] - 6.0 * B3 * xz * g[12]
    gx += B4 * (4.0 * zz - 3.0 * xx - yy) * g[13] + 2.0 * B5 * xz * g[14] + 3.0 * B6 * (xx - yy) * g[15]
    gy += 3.0 * B0 * (xx - yy) * g[9] + B1 * xz * g[10] + B2 * (4.0 * zz - xx - 3.0 * yy) * g[11]
    gy += -6.0 * B3 * yz * g[12] - 2.0 * B4 * xy * g[13] - 2.0 * B5 * yz * g[14] - 6.0 * B6 * xy * g[15]
    gz += B1 * xy * g[10] + 8.0 * B2 * yz * g[11] + 3.0 * B3 * (2.0 * zz - xx - yy) * g[12]
    gz += 8.0 * B4 * xz * g[13] + B5 * (xx - yy) * g[14]
    return gx, gy, gz


@njit(**ROW)
def colour_rows(geometry: Rows, sh: Rows, centre: Vec, terms: int, basis: Doubles, rgb: Rows) -> None:
    """rgb [M, 3] from geometry [M, 11] and sh [M, 48], using the first `terms` coefficients; basis: scratch [16]."""
    for i in range(geometry.shape[0]):
        fill_basis(direction(geometry, i, centre)[0], basis)
        red, green, blue = 0.5, 0.5, 0.5
        for k in range(terms):
            red += basis[k] * sh[i, 3 * k]
            green += basis[k] * sh[i, 3 * k + 1]
            blue += basis[k] * sh[i, 3 * k + 2]
        rgb[i, 0], rgb[i, 1], rgb[i, 2] = max(red, 0.0), max(green, 0.0), max(blue, 0.0)


@njit(**ROW)
def colour_rows_backward(
    geometry: Rows,
    sh: Rows,
    centre: Vec,
    terms: int,
    basis: Doubles,
    pulled: Doubles,
    rgb: Rows,
    grad: Rows,
    grad_geometry: Rows,
    grad_sh: Rows,
) -> None:
    """Gradients of `colour_rows` into grad_geometry [M, 11] and grad_sh [M, 48].

    basis, pulled: scratch [16], `pulled` zero on entry.
    """
    for i in range(geometry.shape[0]):
        red = grad[i, 0] if rgb[i, 0] > 0.0 else np.float32(0.0)
        green = grad[i, 1] if rgb[i, 1] > 0.0 else np.float32(0.0)
        blue = grad[i, 2] if rgb[i, 2] > 0.0 else np.float32(0.0)
        touched = terms if red != 0.0 or green != 0.0 or blue != 0.0 else 0
        for k in range(3 * touched, 48):
            grad_sh[i, k] = 0.0
        for k in range(11):
            grad_geometry[i, k] = 0.0
        if touched == 0:
            continue
        d, norm = direction(geometry, i, centre)
        fill_basis(d, basis)
        for k in range(terms):
            grad_sh[i, 3 * k] = basis[k] * red
            grad_sh[i, 3 * k + 1] = basis[k] * green
            grad_sh[i, 3 * k + 2] = basis[k] * blue
            pulled[k] = red * np.float64(sh[i, 3 * k]) + green * sh[i, 3 * k + 1] + blue * sh[i, 3 * k + 2]
        g = basis_gradient(d, pulled)
        # A unit vector moves only across itself.
        g = mix(1.0 / norm, g, -dot(g, d) / norm, d)
        grad_geometry[i, 0], grad_geometry[i, 1], grad_geometry[i, 2] = g
