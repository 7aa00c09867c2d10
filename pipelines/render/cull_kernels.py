"""Interval evaluation of the renderer's cull predicate.

A row touches a tile if its depth exceeds the near plane and its box [mean ± half width] meets the tile grid. With
the centre anywhere in a ball of radius r, depth and slopes lie in intervals, and the half width is at most that of
an opaque sphere of the largest scale at the nearest depth:

    half² ≤ 2 ln 255 · (scale²·(f/z)²·(1 + slope²) + dilation)

One pass turns the table into balls, in blocks of 64 with a ball around each block; every view then tests blocks
before rows. Rejections are monotone: what rejects a ball rejects every ball inside it, so the blocks change no mask.
Strict arithmetic, the same mask on every machine; without branches, so that LLVM takes four rows at once.

Legend: N rows, K blocks, L inflation classes. balls: float64 [K·5·64], planes x, y, z, radius, scale² of each block.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pipelines.render.conventions import ALPHA_MIN, DILATION, NEAR
from pipelines.render.vectors import HELPER, ROW, Vec, dot, exp, log_scales, vec
from pipelines.render.view import Loaded, View, load_view

Rows = NDArray[np.float32]
Doubles = NDArray[np.float64]
Levels = NDArray[np.uint8]
Mask = NDArray[np.bool_]

BLOCK = 64
PLANES = 5
U = np.uint64
_REACH = -2.0 * math.log(ALPHA_MIN)
# Renderers compute positions in float32: a share of the coordinates' size is added to the ball's radius.
_ROUNDING = 1e-6


@njit(**HELPER)
def may_meet(
    c: float,
    radius: float,
    near: float,
    far: float,
    scale2: float,
    focal: float,
    middle: float,
    limit: float,
    grid: float,
) -> bool:
    """Whether the box may meet the grid along one axis. c: camera-space coordinate; near, far: bounds of 1/z."""
    low, high = c - radius, c + radius
    low *= near if low < 0.0 else far
    high *= near if high > 0.0 else far
    gap = max(low * focal + middle - grid, -(high * focal + middle))
    # 1e-5 and 0.01 px: positions and half widths are rounded to float32.
    gap = max(gap * (1.0 - 1e-5) - 0.01, 0.0)
    slope, gain = min((abs(c) + radius) * near, limit), focal * near
    variance = scale2 * (gain * gain) * (1.0 + slope * slope)
    # Half widths come from rounded conics (a, b, c), which lose 4·2⁻²⁴·ac of their determinant; it is at least
    # 0.3·ac / variance and is held at 1e-7·ac. In squared half width that is a factor 1 + 5e-6·variance, at most 5.
    rounding = 1.001 + min(5e-6 * variance, 4.0)
    return gap * gap <= _REACH * (variance + DILATION) * rounding


@njit(**HELPER)
def may_touch(p: Vec, radius: float, scale2: float, view: Loaded) -> bool:
    """Whether a row within `radius` of p, no wider than √scale2, may touch a tile."""
    right, down, forward, shift, focal, middle, limit, grid = view
    size = abs(p[0]) + abs(p[1]) + abs(p[2]) + abs(shift[0]) + abs(shift[1]) + abs(shift[2]) + 3.0 * radius
    r = radius + _ROUNDING * size
    x, y, z = dot(right, p) + shift[0], dot(down, p) + shift[1], dot(forward, p) + shift[2]
    near, far = 1.0 / max(z - r, NEAR), 1.0 / max(z + r, NEAR)
    in_x = may_meet(x, r, near, far, scale2, focal[0], middle[0], limit[0], grid[0])
    in_y = may_meet(y, r, near, far, scale2, focal[1], middle[1], limit[1], grid[1])
    return (z + r > NEAR) & in_x & in_y


@njit(**ROW)
def make_balls(geometry: Rows, level: Levels, shift: Doubles, growth: Doubles, balls: Doubles) -> None:
    """Fill the rows' balls from geometry [N, 11]; places after the last row are left as they are.

    A row with NaN is never drawn; as a point at the origin it does not spoil the ball of its block.
    """
    for i in range(geometry.shape[0]):
        place = i // BLOCK * (PLANES * BLOCK) + i % BLOCK
        x, y, z = vec(geometry, i)
        a, b, c = log_scales(geometry, i)
        radius, scale2 = shift[level[i]], exp(2.0 * (max(a, max(b, c)) + growth[level[i]]))
        if math.isnan(x + y + z + a + b + c):
            x, y, z, radius, scale2 = 0.0, 0.0, 0.0, 0.0, 0.0
        balls[place], balls[place + BLOCK], balls[place + 2 * BLOCK] = x, y, z
        balls[place + 3 * BLOCK], balls[place + 4 * BLOCK] = radius, scale2


@njit(**HELPER)
def bound_block(balls: Doubles, start: int, count: int) -> tuple[Vec, float, float]:
    """Centre, radius and largest scale² of a ball around the `count` balls of the block at `start`."""
    middle, half = (0.0, 0.0, 0.0), 0.0
    for axis in range(3):
        low, high = balls[start + BLOCK * axis], balls[start + BLOCK * axis]
        for j in range(count):
            low = min(low, balls[start + BLOCK * axis + j])
            high = max(high, balls[start + BLOCK * axis + j])
        centre, half = 0.5 * (low + high), half + 0.25 * (high - low) ** 2
        middle = (middle[1], middle[2], centre)
    radius, scale2 = 0.0, 0.0
    for j in range(count):
        radius = max(radius, balls[start + 3 * BLOCK + j])
        scale2 = max(scale2, balls[start + 4 * BLOCK + j])
    return middle, (radius + math.sqrt(half)) * (1.0 + 1e-9), scale2


@njit(**ROW)
def bound_blocks(balls: Doubles, rows: int, bounds: Doubles) -> None:
    """bounds [K, 5]: centre, radius and scale² of each block."""
    for k in range(bounds.shape[0]):
        middle, radius, scale2 = bound_block(balls, k * PLANES * BLOCK, min(BLOCK, rows - k * BLOCK))
        bounds[k, 0], bounds[k, 1], bounds[k, 2] = middle
        bounds[k, 3], bounds[k, 4] = radius, scale2


@njit(**HELPER)
def cull_block(balls: Doubles, start: int, count: int, view: Loaded, mask: Mask, first: int) -> None:
    """mask of one block's rows, from place `first` on."""
    s = U(start)
    for j in range(U(count)):
        p = balls[s + j], balls[s + U(BLOCK) + j], balls[s + U(2 * BLOCK) + j]
        mask[U(first) + j] = may_touch(p, balls[s + U(3 * BLOCK) + j], balls[s + U(4 * BLOCK) + j], view)


@njit(**ROW)
def cull_view(balls: Doubles, bounds: Doubles, view: View, mask: Mask) -> None:
    """mask [N] of one view."""
    camera = load_view(view)
    for k in range(bounds.shape[0]):
        first, count = BLOCK * k, min(BLOCK, mask.shape[0] - BLOCK * k)
        if may_touch(vec(bounds, k), bounds[k, 3], bounds[k, 4], camera):
            cull_block(balls, k * PLANES * BLOCK, count, camera, mask, first)
        else:
            for i in range(first, first + count):
                mask[i] = False
