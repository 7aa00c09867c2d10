"""Interval evaluation of the surfel renderer's cull predicate.

A surfel is drawn if its centre's depth exceeds the near plane and its box meets the tile grid. The box holds the
disc u² + v² ≤ 2 ln(255·opacity), or the whole grid where the disc comes near the camera plane, and a circle of the
low-pass filter. With the centre anywhere in a ball, any rotation and any opacity, the disc lies in a ball of radius

    shift + √(2 ln 255) · largest scale

whose image is bounded by its extreme coordinates over its extreme depths, and the circle's radius is at most
√(ln 255) px. One pass takes 64 rows at a time, as in `cull_kernels.py`; rejections are monotone, so that what
rejects a ball rejects every ball inside it.

Legend: N rows, V views, K blocks, L inflation classes. balls: float64 [5·64] as there; the planes are x, y, z, shift
and squared scale.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pipelines.render.conventions import ALPHA_MIN, NEAR
from pipelines.render.cull_kernels import BLOCK, BOXES, bound_block
from pipelines.render.prefetch import prefetch
from pipelines.render.surfels.conventions import BOUND, LOW_PASS
from pipelines.render.vectors import HELPER, ROW, Vec, dot, exp, vec
from pipelines.render.view import Loaded, load_view

Rows = NDArray[np.float32]
Doubles = NDArray[np.float64]
Levels = NDArray[np.uint8]
Words = NDArray[np.uint64]

U = np.uint64
_PLANES = 5
REACH2 = -2.0 * math.log(ALPHA_MIN) * (1.0 + 1e-6)
REACH = math.sqrt(REACH2)
BLUR = math.sqrt(REACH2 / LOW_PASS)
# Opacities and boxes are rounded to float32; a share of the coordinates' size is added to the ball's radius.
ROUNDING = 1e-6


@njit(**HELPER)
def may_meet(c: float, centre: float, radius: float, z: float, lens: Vec) -> bool:
    """Whether the box may meet the grid along one axis.

    c, z: camera-space coordinate and depth; centre, radius: radii of the balls of the centre and of the disc.
    lens: focal length, principal point, size of the grid. Where the disc is bounded it lies in front of BOUND.
    """
    near, far = 1.0 / max(z - radius, BOUND), 1.0 / max(z + radius, BOUND)
    low, high = c - radius, c + radius
    low *= near if low < 0.0 else far
    high *= near if high > 0.0 else far
    # The projected centre alone, in front of NEAR, with the low-pass circle around it.
    near, far = 1.0 / max(z - centre, NEAR), 1.0 / max(z + centre, NEAR)
    left, right = c - centre, c + centre
    left *= near if left < 0.0 else far
    right *= near if right > 0.0 else far
    low = min(low * lens[0], left * lens[0] - BLUR) + lens[1]
    high = max(high * lens[0], right * lens[0] + BLUR) + lens[1]
    # 3e-5 and 0.02 px: the margins of the box, taken once more.
    margin = 3e-5 * (abs(low) + abs(high)) + 0.02
    return (low - margin < lens[2]) & (high + margin >= 0.0)


@njit(**HELPER)
def may_touch(p: Vec, shift: float, scale2: float, view: Loaded) -> bool:
    """Whether a surfel within `shift` of p, no wider than √scale2, may touch a tile."""
    right, down, forward, origin, focal, middle, _, grid = view
    size = abs(p[0]) + abs(p[1]) + abs(p[2]) + abs(origin[0]) + abs(origin[1]) + abs(origin[2]) + 3.0 * shift
    centre = shift + ROUNDING * size
    radius = centre + REACH * (1.0 + 1e-6) * math.sqrt(scale2)
    x, y, z = dot(right, p) + origin[0], dot(down, p) + origin[1], dot(forward, p) + origin[2]
    unbounded = z - radius <= BOUND
    in_x = may_meet(x, centre, radius, z, (focal[0], middle[0], grid[0]))
    in_y = may_meet(y, centre, radius, z, (focal[1], middle[1], grid[1]))
    return (z + centre > NEAR) & (unbounded | (in_x & in_y))


@njit(**HELPER)
def fill_balls(geometry: Rows, level: Levels, shift: Doubles, growth: Doubles, first: int, balls: Doubles) -> None:
    """The balls of rows first…first+63 of geometry [N, 10]; the last row stands in for those past the end.

    A row with NaN, or infinitely far away, is never drawn; as a point at the origin it does not spoil its block.
    """
    last = geometry.shape[0] - 1
    for j in range(BLOCK):
        i = min(first + j, last)
        prefetch(geometry, min(i + BLOCK, last))  # loaded while views look at this block
        x, y, z = vec(geometry, i)
        a, b = np.float64(geometry[i, 3]), np.float64(geometry[i, 4])
        radius, log_scale2 = shift[level[i]], 2.0 * (max(a, b) + growth[level[i]])
        if math.isnan((x - x) + (y - y) + (z - z) + a + b):
            x, y, z, radius, log_scale2 = 0.0, 0.0, 0.0, 0.0, -math.inf
        balls[j], balls[j + BLOCK], balls[j + 2 * BLOCK] = x, y, z
        balls[j + 3 * BLOCK], balls[j + 4 * BLOCK] = radius, log_scale2
    # Apart from the gathers above, so that it is vectorised.
    for j in range(U(4 * BLOCK), U(5 * BLOCK)):
        balls[j] = exp(balls[j])


@njit(**HELPER)
def cull_block(balls: Doubles, view: Loaded) -> np.uint64:
    """One block's word: bit j is row j."""
    word = U(0)
    for j in range(U(BLOCK)):
        p = balls[j], balls[j + U(BLOCK)], balls[j + U(2 * BLOCK)]
        word |= U(may_touch(p, balls[j + U(3 * BLOCK)], balls[j + U(4 * BLOCK)], view)) << j
    return word


@njit(**ROW)
def cull_surfels(
    geometry: Rows, level: Levels, shift: Doubles, growth: Doubles, views: NDArray[np.float64], words: Words
) -> None:
    """words [V, K] of packed cameras, views [V, 8, 3]; the table is read once. Bits past the last row are 0."""
    rows, balls = geometry.shape[0], np.zeros(_PLANES * BLOCK)
    boxes = np.zeros(BOXES)
    for k in range(words.shape[1]):
        first = BLOCK * k
        fill_balls(geometry, level, shift, growth, first, balls)
        middle, half, reach, scale2 = bound_block(balls, boxes)
        radius = (reach + math.sqrt(dot(half, half))) * (1.0 + 1e-9)
        valid = U(0xFFFFFFFFFFFFFFFF) >> U(max(BLOCK - (rows - first), 0))
        for v in range(words.shape[0]):
            camera = load_view(views[v])
            touched = may_touch(middle, radius, scale2, camera)
            words[v, k] = cull_block(balls, camera) & valid if touched else U(0)
