"""SSIM and its closed-form gradient, one image row at a time, with separable blurs in float64.

float64, because E[x²] - E[x]² in float32 keeps only four digits of a flat region's variance. Rows are flat arrays
of 3·W values, so that a tap of the horizontal blur is an offset of 3 and every loop is contiguous.

Legend: H rows, n = 3·W values a row, R = 5 taps on either side, `padded` rows have 3·R zeros on either side.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pipelines.render.vectors import INLINED, ROW

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

_FUSED: dict[str, Any] = {**ROW, "fastmath": {"contract"}}
_HELPER: dict[str, Any] = {**INLINED, "fastmath": {"contract"}}

RADIUS = 5
MARGIN = 3 * RADIUS
_C1, _C2 = 0.01**2, 0.03**2
U = np.uint64


@njit(**_HELPER)
def add_product(out: Doubles, a: Floats, b: Floats, start: int, n: int, tap: float) -> None:
    """out += tap · a·b over one image row; out is padded."""
    for j in range(U(n)):
        out[U(MARGIN) + j] += tap * (np.float64(a[U(start) + j]) * np.float64(b[U(start) + j]))


@njit(**_HELPER)
def add_row(out: Doubles, a: Floats, start: int, n: int, tap: float) -> None:
    """out += tap · a over one row; out is padded."""
    for j in range(U(n)):
        out[U(MARGIN) + j] += tap * np.float64(a[U(start) + j])


@njit(**_HELPER)
def blur_row(out: Doubles, row: Doubles, n: int, taps: Doubles) -> None:
    """Horizontal blur of a padded row into out [n]."""
    for j in range(U(n)):
        out[j] = taps[RADIUS] * row[U(MARGIN) + j]
    for k in range(1, RADIUS + 1):
        left, right, tap = U(MARGIN - 3 * k), U(MARGIN + 3 * k), taps[RADIUS + k]
        for j in range(U(n)):
            out[j] += tap * (row[left + j] + row[right + j])


@njit(**_HELPER)
def clear(row: Doubles) -> None:
    """Set a row to 0."""
    for j in range(U(row.shape[0])):
        row[j] = 0.0


@njit(**_HELPER)
def moments_row(
    x: Floats, y: Floats, row: int, height: int, n: int, taps: Doubles, padded: Doubles, blurred: Doubles
) -> None:
    """Blurred x, y, x², y², x·y of one image row into blurred [5, n]; padded: scratch [5, n + 2·margin]."""
    for field in range(5):
        clear(padded[field])
    for k in range(max(row - RADIUS, 0), min(row + RADIUS, height - 1) + 1):
        tap, start = taps[k - row + RADIUS], k * n
        add_row(padded[0], x, start, n, tap)
        add_row(padded[1], y, start, n, tap)
        add_product(padded[2], x, x, start, n, tap)
        add_product(padded[3], y, y, start, n, tap)
        add_product(padded[4], x, y, start, n, tap)
    for field in range(5):
        blur_row(blurred[field], padded[field], n, taps)


@njit(**_HELPER)
def score_row(mx: Doubles, my: Doubles, xx: Doubles, yy: Doubles, xy: Doubles, n: int, scores: Doubles) -> None:
    """Add one row's SSIM map to scores [n]; the arguments are the row's blurred moments."""
    for j in range(U(n)):
        a, b = mx[j], my[j]
        luminance = (2.0 * a * b + _C1) / (a * a + b * b + _C1)
        structure = (2.0 * (xy[j] - a * b) + _C2) / (xx[j] - a * a + yy[j] - b * b + _C2)
        scores[j] += luminance * structure


@njit(**_HELPER)
def partials_row(
    mx: Doubles, my: Doubles, xx: Doubles, yy: Doubles, xy: Doubles, n: int, d_mean: Floats, d_xx: Floats, d_xy: Floats
) -> None:
    """Derivatives of one row's SSIM map by the blurred x, x² and x·y."""
    for j in range(U(n)):
        a, b = mx[j], my[j]
        light, light_norm = 2.0 * a * b + _C1, a * a + b * b + _C1
        texture, texture_norm = 2.0 * (xy[j] - a * b) + _C2, xx[j] - a * a + yy[j] - b * b + _C2
        norm = 1.0 / (light_norm * texture_norm)
        score = light * texture * norm
        d_mean[j] = 2.0 * norm * (b * (texture - light) - score * a * (texture_norm - light_norm))
        d_xx[j] = -score / texture_norm
        d_xy[j] = 2.0 * light * norm


@njit(**_FUSED)
def ssim_scores(
    x: Floats,
    y: Floats,
    height: int,
    n: int,
    first: int,
    last: int,
    taps: Doubles,
    padded: Doubles,
    blurred: Doubles,
    scores: Doubles,
    partials: Floats,
) -> None:
    """Sum the SSIM map over rows first … last - 1 into scores [n] (zeros on entry).

    x, y: flat float32 [H·n]. partials: float32 [3, H, n] to be filled with derivatives, or [3, 0, n] for none.
    """
    for row in range(height):
        moments_row(x, y, row, height, n, taps, padded, blurred)
        mx, my, xx, yy, xy = blurred[0], blurred[1], blurred[2], blurred[3], blurred[4]
        if first <= row < last:
            score_row(mx, my, xx, yy, xy, n, scores)
        if partials.shape[1] > 0:
            partials_row(mx, my, xx, yy, xy, n, partials[0, row], partials[1, row], partials[2, row])


@njit(**_HELPER)
def gradient_row(
    x: Floats, y: Floats, start: int, n: int, blurred: Doubles, ssim_weight: float, l1_weight: float, out: Floats
) -> None:
    """ssim_weight · dSSIM/dx + l1_weight · sign(x - y) of one image row; blurred [3, n]: the blurred partials."""
    d_mean, d_xx, d_xy = blurred[0], blurred[1], blurred[2]
    for j in range(U(n)):
        a, b = np.float64(x[U(start) + j]), np.float64(y[U(start) + j])
        sign = 1.0 if a > b else 0.0
        sign = -1.0 if a < b else sign
        out[U(start) + j] = ssim_weight * (d_mean[j] + 2.0 * a * d_xx[j] + b * d_xy[j]) + l1_weight * sign


@njit(**_FUSED)
def loss_gradient(
    x: Floats,
    y: Floats,
    height: int,
    n: int,
    taps: Doubles,
    padded: Doubles,
    blurred: Doubles,
    partials: Floats,
    ssim_weight: float,
    l1_weight: float,
    out: Floats,
) -> None:
    """out [H·n] = ssim_weight · Σ dSSIM/dx + l1_weight · sign(x - y); the blur is its own adjoint."""
    for row in range(height):
        for field in range(3):
            clear(padded[field])
            for k in range(max(row - RADIUS, 0), min(row + RADIUS, height - 1) + 1):
                add_row(padded[field], partials[field, k], np.int64(0), n, taps[k - row + RADIUS])
            blur_row(blurred[field], padded[field], n, taps)
        gradient_row(x, y, row * n, n, blurred, ssim_weight, l1_weight, out)


@njit(**_FUSED)
def absolute_difference(x: Floats, y: Floats) -> float:
    """Σ |x - y|."""
    total = 0.0
    for j in range(x.shape[0]):
        total += abs(np.float64(x[j]) - np.float64(y[j]))
    return total
