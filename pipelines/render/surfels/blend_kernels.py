"""Front-to-back compositing of surfels in 16×16 tiles; `adjoint_kernels.py` goes back.

Planes and bands are those of `cpu/blend_kernels.py`. The distortion Σ wᵢwⱼ(mᵢ - mⱼ)² over pairs is A·S, with A the
accumulated weight and S the weighted squared deviation from the mean, both kept by Welford's update: no difference
of large sums.

Legend: M rows, E list entries, T tiles, H, W image. `packed` float32 [M, 24] is made by `pack_surfels`; maps float32
[H, W, 10]: alpha, depth, median, distortion, normal (3), mean mapped depth, S, and the median's place in its tile's
list counted from 1 (exact up to 2²⁴).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pipelines.render.conventions import ALPHA_MAX, ALPHA_MIN, NEAR, TILE, TRANSMITTANCE_MIN
from pipelines.render.cpu.blend_kernels import all_stopped, clear_tile, exp2, pixel_of
from pipelines.render.surfels.conventions import FAR, LOW_PASS, MEDIAN
from pipelines.render.vectors import HELPER, INLINED, ROW

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Bands = NDArray[np.uint8]
F = np.float32

# Quotients may be infinite or undefined where a ray lies in a surfel's plane: no nnan, no ninf. No contraction
# either, so that both directions decide alike at thresholds.
STRICT: dict[str, Any] = {**INLINED, "fastmath": {"nsz"}}

_PIXELS = TILE * TILE
_Y, _T = np.uint64(_PIXELS), np.uint64(2 * _PIXELS)
_R, _G, _B, _N0, _N1, _N2, _DEPTH, _MEAN, _SPREAD, _MEDIAN, _PLACE = (np.uint64(_PIXELS * k) for k in range(3, 14))
FORWARD_PLANES = 14 * _PIXELS
LOW, HIGH, STOP = F(ALPHA_MIN), F(ALPHA_MAX), F(TRANSMITTANCE_MIN)
_NEAR, _HALF, _BLUR, _TINY = F(NEAR), F(MEDIAN), F(LOW_PASS), F(1e-20)
_EXPONENT = F(-0.5 / math.log(2.0))  # exp(-ρ/2) = 2^(ρ·_EXPONENT)
# Depths are mapped to FAR / (FAR - NEAR) · (1 - NEAR / depth).
SPAN, SLOPE = F(FAR / (FAR - NEAR)), F(FAR * NEAR / (FAR - NEAR))

# Columns of `packed`.
PX, PY, K, Z, OPACITY, RGB, NORMAL, BOX = 0, 1, 2, 10, 11, 12, 15, 18
PACKED = 24


@njit(**ROW)
def pack_surfels(
    means: Floats,
    transforms: Floats,
    normals: Floats,
    opacities: Floats,
    depths: Floats,
    rgb: Floats,
    middles: Floats,
    extents: Floats,
    packed: Floats,
) -> None:
    """Gather what the blend reads of each visible row; rows with negative extents stay as they are."""
    for i in range(means.shape[0]):
        if extents[i, 0] < F(0):
            continue
        packed[i, PX], packed[i, PY], packed[i, Z], packed[i, OPACITY] = (
            means[i, 0],
            means[i, 1],
            depths[i],
            opacities[i],
        )
        for j in range(8):
            packed[i, K + j] = transforms[i, j]
        for j in range(3):
            packed[i, RGB + j], packed[i, NORMAL + j] = rgb[i, j], normals[i, j]
        packed[i, BOX], packed[i, BOX + 1] = middles[i, 0], middles[i, 1]
        packed[i, BOX + 2], packed[i, BOX + 3] = extents[i, 0], extents[i, 1]


@njit(**STRICT)
def squared(u: np.float32, v: np.float32, dx: np.float32, dy: np.float32) -> tuple[np.float32, np.float32]:
    """Exponents (squared distances in standard deviations) on the surfel and of the low-pass filter."""
    return u * u + v * v, _BLUR * (dx * dx + dy * dy)


@njit(**STRICT)
def raw_alpha(rho: np.float32, opacity: np.float32) -> np.float32:
    """opacity·exp(-ρ/2), neither clamped nor cut."""
    return opacity * exp2(max(rho * _EXPONENT, F(-100.0)))


@njit(**STRICT)
def cut_alpha(raw: np.float32, seen: bool) -> np.float32:
    """Clamped at 0.99, 0 below 1/255 and where the surfel is met in front of the near plane."""
    alpha = min(raw, HIGH)
    alpha = alpha if alpha >= LOW else F(0)
    return alpha if seen else F(0)


@njit(**HELPER)
def band(packed: Floats, i: int, left: float, top: float) -> tuple[np.int64, np.int64]:
    """First and last row of a tile that row i's box meets inside one column of 8 pixels; (1, 0) if none.

    left, top: centre of the column's first pixel.
    """
    x, half_x = np.float64(packed[i, BOX]), np.float64(packed[i, BOX + 2])
    y, half_y = np.float64(packed[i, BOX + 1]), np.float64(packed[i, BOX + 3])
    if x - half_x <= left + 7.0 and x + half_x >= left:
        start = np.int64(math.ceil(max(y - half_y - top, 0.0)))
        stop = np.int64(math.floor(min(y + half_y - top, TILE - 1.0)))
        if start <= stop:
            return start, stop
    return np.int64(1), np.int64(0)


@njit(**STRICT)
def blend_band(planes: Floats, begin: int, end: int, packed: Floats, i: int, place: float) -> None:
    """Lay row i over the pixels begin … end. place: of the entry in the tile's list, from 1."""
    x, y = packed[i, PX], packed[i, PY]
    k0, k1, k2, k3 = packed[i, K], packed[i, K + 1], packed[i, K + 2], packed[i, K + 3]
    k4, k5, k6, k7 = packed[i, K + 4], packed[i, K + 5], packed[i, K + 6], packed[i, K + 7]
    z, opacity = packed[i, Z], packed[i, OPACITY]
    red, green, blue = packed[i, RGB], packed[i, RGB + 1], packed[i, RGB + 2]
    n0, n1, n2 = packed[i, NORMAL], packed[i, NORMAL + 1], packed[i, NORMAL + 2]
    for k in range(np.uint64(begin), np.uint64(end)):
        dx, dy = planes[k] - x, planes[_Y + k] - y
        inverse = F(1) / (k4 + k5 * dx + k6 * dy)
        rho, blur = squared((k0 * dx + k1 * dy) * inverse, (k2 * dx + k3 * dy) * inverse, dx, dy)
        met = rho <= blur  # False for NaN
        depth = k7 * inverse if met else z
        seen = depth >= _NEAR
        depth = depth if seen else z
        alpha = cut_alpha(raw_alpha(rho if met else blur, opacity), seen)
        before = planes[_T + k]
        after = before * (F(1) - alpha)
        live = after >= STOP
        weight = alpha * before if live else F(0)
        planes[_T + k] = after if live else -abs(before)
        planes[_R + k] += weight * red
        planes[_G + k] += weight * green
        planes[_B + k] += weight * blue
        planes[_N0 + k] += weight * n0
        planes[_N1 + k] += weight * n1
        planes[_N2 + k] += weight * n2
        planes[_DEPTH + k] += weight * depth
        away = SPAN - SLOPE / depth - planes[_MEAN + k]
        step = weight / max(F(1) - before + weight, _TINY) * away
        planes[_MEAN + k] += step
        planes[_SPREAD + k] += weight * away * (away - step)
        middle = (weight > F(0)) & (before > _HALF)
        planes[_MEDIAN + k] = depth if middle else planes[_MEDIAN + k]
        planes[_PLACE + k] = place if middle else planes[_PLACE + k]


@njit(**HELPER)
def blend_tile(
    planes: Floats, packed: Floats, lists: Ints, start: int, end: int, left: int, top: int, bands: Bands
) -> tuple[int, int]:
    """Blend one tile's list; returns the entries processed and the pairs evaluated, and fills bands."""
    fragments = 0
    for entry in range(start, end):
        if (entry - start) & 15 == 15 and all_stopped(planes):
            return entry, fragments
        i = lists[entry]
        for column in range(2):
            first, last = band(packed, i, left + 8.0 * column + 0.5, top + 0.5)
            bands[entry, 2 * column], bands[entry, 2 * column + 1] = first, last
            if first <= last:
                base = 128 * column + 8 * first
                count = 8 * (last - first + 1)
                blend_band(planes, base, base + count, packed, i, F(entry - start + 1))
                fragments += count
    return end, fragments


@njit(**HELPER)
def write_pixel(planes: Floats, k: int, background: Floats, image: Floats, maps: Floats, y: int, x: int) -> None:
    """Pixel (x, y) from place k of its tile's planes."""
    rest = abs(planes[2 * _PIXELS + k])
    for channel in range(3):
        image[y, x, channel] = planes[(3 + channel) * _PIXELS + k] + rest * background[channel]
        maps[y, x, 4 + channel] = planes[(6 + channel) * _PIXELS + k]
    alpha, spread = F(1) - rest, planes[11 * _PIXELS + k]
    maps[y, x, 0], maps[y, x, 1], maps[y, x, 2] = alpha, planes[9 * _PIXELS + k], planes[12 * _PIXELS + k]
    maps[y, x, 3], maps[y, x, 7], maps[y, x, 8] = alpha * spread, planes[10 * _PIXELS + k], spread
    maps[y, x, 9] = planes[13 * _PIXELS + k]


@njit(**ROW)
def blend(
    packed: Floats,
    starts: Ints,
    lists: Ints,
    columns: int,
    planes: Floats,
    background: Floats,
    image: Floats,
    maps: Floats,
    stops: Ints,
    bands: Bands,
) -> int:
    """Blend all tiles; returns the pairs evaluated.

    Fills image [H, W, 3], maps [H, W, 10], stops [T] (end of the processed part of each list) and bands [E, 4].
    """
    height, width = image.shape[0], image.shape[1]
    fragments = 0
    for t in range(stops.shape[0]):
        left, top = TILE * (t % columns), TILE * (t // columns)
        clear_tile(planes, left, top, width, height)
        stops[t], pairs = blend_tile(planes, packed, lists, starts[t], starts[t + 1], left, top, bands)
        fragments += pairs
        for k in range(_PIXELS):
            x, y = pixel_of(k, left, top)
            if x < width and y < height:
                write_pixel(planes, k, background, image, maps, y, x)
    return fragments
