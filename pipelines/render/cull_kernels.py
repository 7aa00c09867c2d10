"""Interval evaluation of the renderer's cull predicate.

A row touches a tile if its depth exceeds the near plane and its box [mean ± half width] meets the tile grid. With
the centre anywhere in a ball of radius r, depth and slopes lie in intervals, and the half width is at most that of
an opaque sphere of the largest scale at the nearest depth:

    half² ≤ 2 ln 255 · (scale²·(f/z)²·(1 + slope²) + dilation)

One pass over the table takes 64 rows at a time: it turns them into balls that stay in the first-level cache, puts a
ball around them, and lets every view test that one before the rows. Rejections are monotone: what rejects a ball
rejects every ball inside it, so the blocks change no mask. A block is a word of the view's bitmap.
Strict arithmetic, the same mask on every machine; without branches, so that LLVM takes four rows at once.

Legend: N rows, V views, K blocks, L inflation classes. balls: float64 [5·64], planes x, y, z, radius, scale² of one
block.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pipelines.render.conventions import ALPHA_MIN, DILATION, NEAR
from pipelines.render.vectors import HELPER, ROW, Vec, dot, exp, log_scales, vec
from pipelines.render.view import Loaded, load_view

Rows = NDArray[np.float32]
Doubles = NDArray[np.float64]
Levels = NDArray[np.uint8]
Words = NDArray[np.uint64]

BLOCK = 64
_PLANES = 5
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


@njit(**HELPER)
def fill_balls(geometry: Rows, level: Levels, shift: Doubles, growth: Doubles, first: int, balls: Doubles) -> None:
    """The balls of rows first…first+63 of geometry [N, 11]; the last row stands in for those past the end.

    A row with NaN, or infinitely far away, is never drawn; as a point at the origin it does not spoil the ball of
    its block.
    """
    last = geometry.shape[0] - 1
    for j in range(BLOCK):
        i = min(first + j, last)
        x, y, z = vec(geometry, i)
        a, b, c = log_scales(geometry, i)
        radius, log_scale2 = shift[level[i]], 2.0 * (max(a, max(b, c)) + growth[level[i]])
        if math.isnan((x - x) + (y - y) + (z - z) + a + b + c):
            x, y, z, radius, log_scale2 = 0.0, 0.0, 0.0, 0.0, -math.inf
        balls[j], balls[j + BLOCK], balls[j + 2 * BLOCK] = x, y, z
        balls[j + 3 * BLOCK], balls[j + 4 * BLOCK] = radius, log_scale2
    # Apart from the gathers above, so that it is vectorised.
    for j in range(U(4 * BLOCK), U(5 * BLOCK)):
        balls[j] = exp(balls[j])


@njit(**HELPER)
def bound_block(balls: Doubles) -> tuple[Vec, float, float]:
    """Centre, radius and largest scale² of a ball around those of one block."""
    middle, half = (0.0, 0.0, 0.0), 0.0
    for axis in range(3):
        low, high = balls[BLOCK * axis], balls[BLOCK * axis]
        for j in range(BLOCK * axis, BLOCK * (axis + 1)):
            low, high = min(low, balls[j]), max(high, balls[j])
        centre, half = 0.5 * (low + high), half + 0.25 * (high - low) ** 2
        middle = (middle[1], middle[2], centre)
    radius, scale2 = 0.0, 0.0
    for j in range(BLOCK):
        radius, scale2 = max(radius, balls[j + 3 * BLOCK]), max(scale2, balls[j + 4 * BLOCK])
    return middle, (radius + math.sqrt(half)) * (1.0 + 1e-9), scale2


@njit(**HELPER)
def cull_block(balls: Doubles, view: Loaded) -> np.uint64:
    """One block's word: bit j is row j."""
    word = U(0)
    for j in range(U(BLOCK)):
        p = balls[j], balls[j + U(BLOCK)], balls[j + U(2 * BLOCK)]
        word |= U(may_touch(p, balls[j + U(3 * BLOCK)], balls[j + U(4 * BLOCK)], view)) << j
    return word


@njit(**ROW)
def cull_table(
    geometry: Rows, level: Levels, shift: Doubles, growth: Doubles, views: NDArray[np.float64], words: Words
) -> None:
    """words [V, K] of packed cameras, views [V, 8, 3]; the table is read once. Bits past the last row are 0."""
    rows, balls = geometry.shape[0], np.zeros(_PLANES * BLOCK)
    for k in range(words.shape[1]):
        first = BLOCK * k
        fill_balls(geometry, level, shift, growth, first, balls)
        middle, radius, scale2 = bound_block(balls)
        valid = U(0xFFFFFFFFFFFFFFFF) >> U(max(BLOCK - (rows - first), 0))
        for v in range(words.shape[0]):
            camera = load_view(views[v])
            touched = may_touch(middle, radius, scale2, camera)
            words[v, k] = cull_block(balls, camera) & valid if touched else U(0)
