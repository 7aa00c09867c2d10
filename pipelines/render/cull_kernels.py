"""Interval evaluation of the renderer's cull predicate.

A row touches a tile if its depth exceeds the near plane and its box [mean ± half width] meets the tile grid. With
the centre anywhere in a ball of radius r, depth and slopes lie in intervals, and the half width is at most that of
an opaque sphere of the largest scale at the nearest depth:

    half² ≤ 2 ln 255 · (scale²·(f/z)²·(1 + slope²) + dilation)

One pass over the table takes 64 rows at a time: it turns them into balls that stay in the first-level cache, puts a
box around them and one around every eight, and lets every view test these before the rows. Rejections are monotone:
what rejects a box rejects every ball inside it; and where all slopes of a box lie within the grid, no ball inside it
has a gap. So boxes change no mask. A block is a word of the view's bitmap. Of 7,155 rows of bonsai a view leaves 83 %
of the blocks to their octets, and 38 % of these to the rows; that takes a quarter off the time of a pass.
Strict arithmetic, the same mask on every machine; without branches, so that LLVM takes four rows at once.

Legend: N rows, V views, K blocks, L inflation classes. balls: float64 [5·64], planes x, y, z, reach, scale² of one
block; the reach of a ball is its radius and what its position may be rounded by. boxes: float64 [8·8], of the
octets of a block the box's centre, its half widths, the largest reach and the largest scale².
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pipelines.render.conventions import ALPHA_MIN, DILATION, NEAR
from pipelines.render.prefetch import prefetch
from pipelines.render.vectors import HELPER, ROW, Vec, dot, exp, log_scales, vec
from pipelines.render.view import Loaded, load_view

Rows = NDArray[np.float32]
Doubles = NDArray[np.float64]
Levels = NDArray[np.uint8]
Words = NDArray[np.uint64]

BLOCK, OCTET = 64, 8
BOXES = 8 * (BLOCK // OCTET)  # numbers of the boxes of a block
_OCTETS = BLOCK // OCTET
_PLANES = 5
U = np.uint64
_Q, _ROWS = U(_OCTETS), U(OCTET)
_ONES, _FULL = U(0xFFFFFFFFFFFFFFFF), U((1 << OCTET) - 1)
_REACH = -2.0 * math.log(ALPHA_MIN)
# Renderers compute positions in float32: a share of the coordinates' size is added to the ball's radius.
_ROUNDING = 1e-6
# A box's extent along an axis is rounded otherwise than its rows' coordinates. Both errors are below 1e-15 of the
# coordinates, of which a millionth is in every radius.
_SLACK = 1.0 + 1e-7


@njit(**HELPER)
def slopes(c: float, radius: float, near: float, far: float) -> tuple[float, float]:
    """Bounds of (c ± radius) / z. c: camera-space coordinate; near, far: bounds of 1/z."""
    low, high = c - radius, c + radius
    return low * (near if low < 0.0 else far), high * (near if high > 0.0 else far)


@njit(**HELPER)
def may_meet(
    low: float, high: float, near: float, scale2: float, focal: float, middle: float, limit: float, grid: float
) -> bool:
    """Whether the box may meet the grid along one axis. low, high: bounds of the slope; near: largest 1/z."""
    gap = max(low * focal + middle - grid, -(high * focal + middle))
    # 1e-5 and 0.01 px: positions and half widths are rounded to float32.
    gap = max(gap * (1.0 - 1e-5) - 0.01, 0.0)
    slope, gain = min(max(high, -low), limit), focal * near
    variance = scale2 * (gain * gain) * (1.0 + slope * slope)
    # Half widths come from rounded conics (a, b, c), which lose 4·2⁻²⁴·ac of their determinant; it is at least
    # 0.3·ac / variance and is held at 1e-7·ac. In squared half width that is a factor 1 + 5e-6·variance, at most 5.
    rounding = 1.001 + min(5e-6 * variance, 4.0)
    return gap * gap <= _REACH * (variance + DILATION) * rounding


@njit(**HELPER)
def lies_within(low: float, high: float, focal: float, middle: float, grid: float) -> bool:
    """Whether no slope in low…high is outside the grid."""
    return (low * focal + middle >= 0.0) & (high * focal + middle - grid <= 0.0)


@njit(**HELPER)
def reach_of(p: Vec, radius: float) -> float:
    """Radius of the ball that a row's position may lie in after rounding, but for the view's share."""
    return radius + _ROUNDING * (abs(p[0]) + abs(p[1]) + abs(p[2]) + 3.0 * radius)


@njit(**HELPER)
def rounding_of(view: Loaded) -> float:
    """The view's share of a reach."""
    shift = view[3]
    return _ROUNDING * (abs(shift[0]) + abs(shift[1]) + abs(shift[2]))


@njit(**HELPER)
def may_touch(p: Vec, radius: float, scale2: float, view: Loaded) -> bool:
    """Whether a row within `radius` of p, no wider than √scale2, may touch a tile."""
    return ball_may_touch(p, reach_of(p, radius), scale2, view)


@njit(**HELPER)
def ball_may_touch(p: Vec, reach: float, scale2: float, view: Loaded) -> bool:
    """`may_touch` of a ball."""
    right, down, forward, shift, focal, middle, limit, grid = view
    r = reach + rounding_of(view)
    x, y, z = dot(right, p) + shift[0], dot(down, p) + shift[1], dot(forward, p) + shift[2]
    near, far = 1.0 / max(z - r, NEAR), 1.0 / max(z + r, NEAR)
    left, rightmost = slopes(x, r, near, far)
    top, bottom = slopes(y, r, near, far)
    in_x = may_meet(left, rightmost, near, scale2, focal[0], middle[0], limit[0], grid[0])
    in_y = may_meet(top, bottom, near, scale2, focal[1], middle[1], limit[1], grid[1])
    return (z + r > NEAR) & in_x & in_y


@njit(**HELPER)
def extent(axis: Vec, half: Vec) -> float:
    """Half the width of a box along a unit vector."""
    return abs(axis[0]) * half[0] + abs(axis[1]) * half[1] + abs(axis[2]) * half[2]


@njit(**HELPER)
def judge_box(p: Vec, half: Vec, reach: float, scale2: float, view: Loaded) -> tuple[bool, bool]:
    """Of balls with centres in p ± half: whether any may touch a tile, and whether all are sure to be kept."""
    right, down, forward, shift, focal, middle, limit, grid = view
    r = reach + rounding_of(view)
    rx, ry = (extent(right, half) + r) * _SLACK, (extent(down, half) + r) * _SLACK
    rz = (extent(forward, half) + r) * _SLACK
    x, y, z = dot(right, p) + shift[0], dot(down, p) + shift[1], dot(forward, p) + shift[2]
    near, far = 1.0 / max(z - rz, NEAR), 1.0 / max(z + rz, NEAR)
    left, rightmost = slopes(x, rx, near, far)
    top, bottom = slopes(y, ry, near, far)
    in_x = may_meet(left, rightmost, near, scale2, focal[0], middle[0], limit[0], grid[0])
    in_y = may_meet(top, bottom, near, scale2, focal[1], middle[1], limit[1], grid[1])
    all_x = lies_within(left, rightmost, focal[0], middle[0], grid[0])
    all_y = lies_within(top, bottom, focal[1], middle[1], grid[1])
    return (z + rz > NEAR) & in_x & in_y, (z - rz > NEAR) & all_x & all_y


@njit(**HELPER)
def fill_balls(geometry: Rows, level: Levels, shift: Doubles, growth: Doubles, first: int, balls: Doubles) -> np.uint8:
    """The balls of rows first…first+63 of geometry [N, 11]; the last row stands in for those past the end. Returns the
    highest level; a level without a class is taken as the highest class.

    A row with NaN, or infinitely far away, is never drawn; as a point at the origin it does not spoil the box of
    its block.
    """
    last, top, highest = geometry.shape[0] - 1, np.uint8(shift.shape[0] - 1), np.uint8(0)
    for j in range(BLOCK):
        i = min(first + j, last)
        prefetch(geometry, min(i + BLOCK, last))  # loaded while views look at this block
        balls[j], balls[j + BLOCK], balls[j + 2 * BLOCK] = vec(geometry, i)
        a, b, c = log_scales(geometry, i)
        highest, held = max(highest, level[i]), min(level[i], top)
        log_scale2 = 2.0 * (max(a, max(b, c)) + growth[held])
        balls[j + 3 * BLOCK] = shift[held]
        balls[j + 4 * BLOCK] = log_scale2 if a + b + c == a + b + c else math.nan
    # Apart from the gathers above, so that it is vectorised.
    for j in range(U(BLOCK)):
        p, radius = (balls[j], balls[j + U(BLOCK)], balls[j + U(2 * BLOCK)]), balls[j + U(3 * BLOCK)]
        log_scale2 = balls[j + U(4 * BLOCK)]
        lost = math.isnan((p[0] - p[0]) + (p[1] - p[1]) + (p[2] - p[2]) + log_scale2)
        p = 0.0 if lost else p[0], 0.0 if lost else p[1], 0.0 if lost else p[2]
        balls[j], balls[j + U(BLOCK)], balls[j + U(2 * BLOCK)] = p
        balls[j + U(3 * BLOCK)] = reach_of(p, 0.0 if lost else radius)
        balls[j + U(4 * BLOCK)] = exp(-math.inf if lost else log_scale2)
    return highest


@njit(**HELPER)
def bounds_of(balls: Doubles, first: int) -> tuple[float, float]:
    """Smallest and largest of the numbers of an octet in one plane, which start at `first`."""
    low, high = balls[first], balls[first]
    for j in range(first + 1, first + OCTET):
        low, high = min(low, balls[j]), max(high, balls[j])
    return low, high


@njit(**HELPER)
def bound_axis(balls: Doubles, plane: int, boxes: Doubles) -> tuple[float, float]:
    """Middle and half width along one axis, entered for each octet and returned for the block."""
    lowest, highest = math.inf, -math.inf
    for q in range(_OCTETS):
        low, high = bounds_of(balls, BLOCK * plane + OCTET * q)
        boxes[_OCTETS * plane + q], boxes[_OCTETS * (plane + 3) + q] = 0.5 * (low + high), 0.5 * (high - low)
        lowest, highest = min(lowest, low), max(highest, high)
    return 0.5 * (lowest + highest), 0.5 * (highest - lowest)


@njit(**HELPER)
def bound_size(balls: Doubles, plane: int, boxes: Doubles) -> float:
    """The largest number of a plane of sizes, entered for each octet and returned for the block."""
    largest = -math.inf
    for q in range(_OCTETS):
        high = bounds_of(balls, BLOCK * plane + OCTET * q)[1]
        boxes[_OCTETS * (plane + 3) + q] = high
        largest = max(largest, high)
    return largest


@njit(**HELPER)
def bound_block(balls: Doubles, boxes: Doubles) -> tuple[Vec, Vec, float, float]:
    """Fill the boxes of one block's octets; centre and half widths of the box of all, its largest reach and scale²."""
    x, half_x = bound_axis(balls, 0, boxes)
    y, half_y = bound_axis(balls, 1, boxes)
    z, half_z = bound_axis(balls, 2, boxes)
    return (x, y, z), (half_x, half_y, half_z), bound_size(balls, 3, boxes), bound_size(balls, 4, boxes)


@njit(**HELPER)
def judge_octets(boxes: Doubles, view: Loaded) -> tuple[np.uint64, np.uint64]:
    """`judge_box` of each octet: bit q is octet q."""
    some, every = U(0), U(0)
    for q in range(_Q):
        middle = boxes[q], boxes[q + _Q], boxes[q + U(2) * _Q]
        half = boxes[q + U(3) * _Q], boxes[q + U(4) * _Q], boxes[q + U(5) * _Q]
        any_row, each_row = judge_box(middle, half, boxes[q + U(6) * _Q], boxes[q + U(7) * _Q], view)
        some |= U(any_row) << q
        every |= U(each_row) << q
    return some, every


@njit(**HELPER)
def cull_octet(balls: Doubles, first: np.uint64, view: Loaded) -> np.uint64:
    """Bits of the eight rows from `first`: bit j is row first + j."""
    bits = U(0)
    for j in range(_ROWS):
        k = first + j
        p = balls[k], balls[k + U(BLOCK)], balls[k + U(2 * BLOCK)]
        bits |= U(ball_may_touch(p, balls[k + U(3 * BLOCK)], balls[k + U(4 * BLOCK)], view)) << j
    return bits


@njit(**ROW)
def cull_table(
    geometry: Rows, level: Levels, shift: Doubles, growth: Doubles, views: NDArray[np.float64], words: Words
) -> int:
    """words [V, K] of packed cameras, views [V, 8, 3]; the table is read once. Bits past the last row are 0. Returns
    the highest level of a row."""
    rows, balls, highest = geometry.shape[0], np.zeros(_PLANES * BLOCK), np.uint8(0)
    boxes = np.zeros(BOXES)
    for k in range(words.shape[1]):
        first = BLOCK * k
        highest = max(highest, fill_balls(geometry, level, shift, growth, first, balls))
        middle, half, reach, scale2 = bound_block(balls, boxes)
        valid = _ONES >> U(max(BLOCK - (rows - first), 0))
        for v in range(words.shape[0]):
            camera = load_view(views[v])
            some, every = judge_box(middle, half, reach, scale2, camera)
            word = _ONES if every else U(0)
            if some and not every:  # here, because as a helper of its own it is not vectorised
                any_row, each_row = judge_octets(boxes, camera)
                for q in range(_Q):
                    if (each_row >> q) & U(1):
                        word |= _FULL << (q * _ROWS)
                    elif (any_row >> q) & U(1):
                        word |= cull_octet(balls, q * _ROWS, camera) << (q * _ROWS)
            words[v, k] = word & valid
    return int(highest)
