"""Front-to-back compositing of 16×16 tiles and its adjoint.

A tile lives in a flat float32 buffer of planes of 256 values, two columns of 8×16 pixels after each other, so that
a band of rows in one column is one contiguous range: with unsigned indices LLVM turns the inner loops into 8-wide
code (10× slower without either). A transmittance plane is negative where a pixel has stopped or lies outside.

The adjoint replays the forward order: the colour behind a fragment is the finished pixel minus what was already
laid down, so neither a final transmittance nor a last index has to be kept.

Legend: M rows, E list entries, T tiles, H, W image. `packed` float32 [M, 16] is made by `pack_rows`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pipelines.render.conventions import ALPHA_MAX, ALPHA_MIN, DETERMINANT_FLOOR, TILE, TRANSMITTANCE_MIN
from pipelines.render.vectors import HELPER, INLINED, ROW, log

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Bands = NDArray[np.uint8]
F = np.float32

# No `reassoc` around exp2: it would cancel the addition that rounds (image right, gradients 300× wrong, D§12).
_FAST: dict[str, Any] = {**INLINED, "fastmath": {"nnan", "ninf", "nsz", "arcp", "contract", "afn"}}
# Sums over pixels may be reordered into lanes; flags are per instruction, so exp2 inside keeps its own.
_SUMS: dict[str, Any] = {**_FAST, "fastmath": {*_FAST["fastmath"], "reassoc"}}

# Planes of the buffer: position, transmittance, then colours (forward) or remainder and gradients (adjoint).
_PIXELS = TILE * TILE
_Y, _T, _A, _B, _C, _D = (np.uint64(_PIXELS * plane) for plane in range(1, 7))
FORWARD_PLANES, ADJOINT_PLANES = 6 * _PIXELS, 7 * _PIXELS
_LOW, _HIGH, _STOP = F(ALPHA_MIN), F(ALPHA_MAX), F(TRANSMITTANCE_MIN)
# exp(-q/2) = 2^(-(√(log2 e / 2)·√q)²)
_ROOT = math.sqrt(0.5 / math.log(2.0))

# Columns of `packed`: centre, factors of the conic, opacity, colour; then for the bands the half height, the largest
# exponent with alpha ≥ 1/255, dx of the topmost point, and 1 / (r² + s²).
_PX, _PY, _P, _R, _S, _O, _RGB, _HALF, _REACH, _TIP, _SHARE = 0, 1, 2, 3, 4, 5, 6, 9, 10, 11, 12
PACKED = 16  # one cache line


@njit(**ROW)
def pack_rows(means: Floats, conics: Floats, opacities: Floats, rgb: Floats, extents: Floats, packed: Floats) -> None:
    """Gather what the blend reads of each visible row; rows with negative extents stay as they are.

    The conic is factored: log2(alpha / o) = -((p·dx + r·dy)² + (s·dy)²) is never positive, however thin the row.
    """
    for i in range(means.shape[0]):
        if extents[i, 0] < F(0):
            continue
        a, b, c = np.float64(conics[i, 0]), np.float64(conics[i, 1]), np.float64(conics[i, 2])
        determinant = max(a * c - b * b, a * c * DETERMINANT_FLOOR)
        packed[i, _PX], packed[i, _PY] = means[i, 0], means[i, 1]
        p = _ROOT * math.sqrt(a)
        r, s = b / a * p, _ROOT * math.sqrt(determinant / a)
        packed[i, _P], packed[i, _R], packed[i, _S] = p, r, s
        packed[i, _O] = opacities[i]
        packed[i, _RGB], packed[i, _RGB + 1], packed[i, _RGB + 2] = rgb[i, 0], rgb[i, 1], rgb[i, 2]
        packed[i, _HALF] = extents[i, 1]
        packed[i, _REACH] = log(np.float64(opacities[i]) / ALPHA_MIN) / math.log(2.0)
        packed[i, _TIP], packed[i, _SHARE] = -b / a * packed[i, _HALF], 1.0 / (r * r + s * s)


@njit(**_FAST)
def exp2(x: float) -> np.float32:
    """2^x for -126 < x ≤ 0: adding 1.5·2²³ rounds to an integer, whose bits become the exponent."""
    rounded = x + F(12582912.0)
    f = x - (rounded - F(12582912.0))
    y = F(0.00134004417) * f + F(0.00967604675)
    y = y * f + F(0.0555032719)
    y = y * f + F(0.240221072)
    y = y * f + F(0.693147207)
    y = y * f + F(1.0)
    return np.int32(F(y).view(np.int32) + np.int32(F(rounded).view(np.int32) << np.int32(23))).view(np.float32)


@njit(**_FAST)
def raw_alpha(dx: float, dy: float, p: float, r: float, s: float, opacity: float) -> float:
    """opacity·exp(-q/2), neither clamped nor cut."""
    u = p * dx + r * dy
    v = s * dy
    return opacity * exp2(max(-(u * u + v * v), F(-100.0)))


@njit(**HELPER)
def edge(packed: Floats, i: int, dx: float, sign: float) -> float:
    """Upper (sign 1) or lower (-1) dy where the ellipse of row i crosses the line dx; NaN if it does not."""
    p, r, s = np.float64(packed[i, _P]), np.float64(packed[i, _R]), np.float64(packed[i, _S])
    u, v = p * dx, s * p * dx
    return (sign * math.sqrt((r * r + s * s) * packed[i, _REACH] - v * v) - r * u) * packed[i, _SHARE]


@njit(**HELPER)
def column_band(packed: Floats, i: int, left: float, top: float) -> tuple[np.int64, np.int64]:
    """First and last row of a tile in which row i can reach alpha ≥ 1/255 inside one column of 8 pixels.

    left, top: centre of the column's first pixel. The ellipse's topmost and lowest points count if they lie inside
    the column, else where the ellipse crosses the column's nearer edge. Returns (1, 0) if it stays outside.
    """
    y, half, tip = np.float64(packed[i, _PY]) - top, np.float64(packed[i, _HALF]), np.float64(packed[i, _TIP])
    margin = 0.01 + 1e-5 * half
    first = left - packed[i, _PX] - margin
    last = first + 7.0 + 2.0 * margin
    high, low = half, -half
    if not first <= tip <= last:
        high = edge(packed, i, min(max(tip, first), last), 1.0)
    if not first <= -tip <= last:
        low = edge(packed, i, min(max(-tip, first), last), -1.0)
    # False for NaN.
    if low <= high:
        start = np.int64(math.ceil(max(y + low - margin, 0.0)))
        stop = np.int64(math.floor(min(y + high + margin, TILE - 1.0)))
        if start <= stop:
            return start, stop
    return np.int64(1), np.int64(0)


@njit(**HELPER)
def pixel_of(k: int, left: int, top: int) -> tuple[int, int]:
    """Column and row in the image of place k in a tile's planes."""
    return left + ((k >> 7) << 3) + (k & 7), top + ((k >> 3) & 15)


@njit(**HELPER)
def clear_tile(planes: Floats, left: int, top: int, width: int, height: int) -> None:
    """Set a tile's pixel centres and transmittances, and all other planes to 0."""
    for k in range(3 * _PIXELS, planes.shape[0]):
        planes[k] = F(0)
    for k in range(_PIXELS):
        x, y = pixel_of(k, left, top)
        planes[k], planes[_PIXELS + k] = x + F(0.5), y + F(0.5)
        planes[2 * _PIXELS + k] = F(1) if x < width and y < height else F(-1)


@njit(**HELPER)
def all_stopped(planes: Floats) -> bool:
    """No pixel of the tile takes another fragment."""
    for k in range(_PIXELS):  # noqa: SIM110 (a generator does not compile)
        if planes[_T + np.uint64(k)] >= F(0):
            return False
    return True


@njit(**_FAST)
def blend_band(planes: Floats, begin: int, end: int, packed: Floats, i: int) -> None:
    """Lay row i over the pixels begin … end.

    No sum over pixels in here: LLVM would unroll the loop fourfold for it and leave short bands to scalar code.
    """
    x, y = packed[i, _PX], packed[i, _PY]
    p, r, s, opacity = packed[i, _P], packed[i, _R], packed[i, _S], packed[i, _O]
    red, green, blue = packed[i, _RGB], packed[i, _RGB + 1], packed[i, _RGB + 2]
    for k in range(np.uint64(begin), np.uint64(end)):
        alpha = min(raw_alpha(planes[k] - x, planes[_Y + k] - y, p, r, s, opacity), _HIGH)
        alpha = alpha if alpha >= _LOW else F(0)
        before = planes[_T + k]
        after = before * (F(1) - alpha)
        weight = alpha * before if after >= _STOP else F(0)
        planes[_T + k] = after if after >= _STOP else -abs(before)
        planes[_A + k] += weight * red
        planes[_B + k] += weight * green
        planes[_C + k] += weight * blue


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
            first, last = column_band(packed, i, left + 8.0 * column + 0.5, top + 0.5)
            bands[entry, 2 * column], bands[entry, 2 * column + 1] = first, last
            if first <= last:
                base = 128 * column + 8 * first
                count = 8 * (last - first + 1)
                blend_band(planes, base, base + count, packed, i)
                fragments += count
    return end, fragments


@njit(**ROW)
def blend(
    packed: Floats,
    starts: Ints,
    lists: Ints,
    columns: int,
    planes: Floats,
    background: Floats,
    image: Floats,
    opacity: Floats,
    stops: Ints,
    bands: Bands,
) -> int:
    """Blend all tiles; returns the pairs evaluated.

    Fills image [H, W, 3], opacity [H, W], stops [T] (end of the processed part of each list) and bands [E, 4].
    """
    height, width = opacity.shape
    fragments = 0
    for t in range(stops.shape[0]):
        left, top = TILE * (t % columns), TILE * (t // columns)
        clear_tile(planes, left, top, width, height)
        stops[t], pairs = blend_tile(planes, packed, lists, starts[t], starts[t + 1], left, top, bands)
        fragments += pairs
        for k in range(_PIXELS):
            x, y = pixel_of(k, left, top)
            if x < width and y < height:
                rest = abs(planes[2 * _PIXELS + k])
                opacity[y, x] = F(1) - rest
                for channel in range(3):
                    image[y, x, channel] = planes[(3 + channel) * _PIXELS + k] + rest * background[channel]
    return fragments


@njit(**_SUMS)
def adjoint_band(planes: Floats, begin: int, end: int, packed: Floats, i: int) -> tuple[np.float32, ...]:
    """Sums over pixels of dL/d(log alpha)·(1, dx, dy, dx², dx·dy, dy²), of dL/d(rgb), and of alpha·T."""
    x, y = packed[i, _PX], packed[i, _PY]
    p, r, s, opacity = packed[i, _P], packed[i, _R], packed[i, _S], packed[i, _O]
    red, green, blue = packed[i, _RGB], packed[i, _RGB + 1], packed[i, _RGB + 2]
    m, mx, my, mxx, mxy, myy = F(0), F(0), F(0), F(0), F(0), F(0)
    g_red, g_green, g_blue, total = F(0), F(0), F(0), F(0)
    for k in range(np.uint64(begin), np.uint64(end)):
        dx, dy = planes[k] - x, planes[_Y + k] - y
        raw = raw_alpha(dx, dy, p, r, s, opacity)
        alpha = min(raw, _HIGH)
        alpha = alpha if alpha >= _LOW else F(0)
        before = planes[_T + k]
        after = before * (F(1) - alpha)
        live = after >= _STOP
        alpha = alpha if live else F(0)
        planes[_T + k] = after if live else -abs(before)
        weight = alpha * before
        total += weight
        a, b, c = planes[_B + k], planes[_C + k], planes[_D + k]
        laid = weight * (a * red + b * green + c * blue)
        behind = planes[_A + k] - laid
        planes[_A + k] = behind
        g = laid - behind * alpha / (F(1) - alpha)
        g = g if raw <= _HIGH else F(0)
        m += g
        mx += g * dx
        my += g * dy
        mxx += g * dx * dx
        mxy += g * dx * dy
        myy += g * dy * dy
        g_red += weight * a
        g_green += weight * b
        g_blue += weight * c
    return m, mx, my, mxx, mxy, myy, g_red, g_green, g_blue, total


@njit(**HELPER)
def adjoint_tile(
    planes: Floats, packed: Floats, lists: Ints, start: int, stop: int, bands: Bands, moments: Floats
) -> None:
    """Add one tile's sums to moments [M, 10]."""
    for entry in range(start, stop):
        i = lists[entry]
        for column in range(2):
            first, last = np.int64(bands[entry, 2 * column]), np.int64(bands[entry, 2 * column + 1])
            if first <= last:
                base = 128 * column + 8 * first
                sums = adjoint_band(planes, base, base + 8 * (last - first + 1), packed, i)
                for j in range(10):
                    moments[i, j] += sums[j]


@njit(**ROW)
def blend_adjoint(
    packed: Floats,
    starts: Ints,
    lists: Ints,
    columns: int,
    planes: Floats,
    image: Floats,
    grad_image: Floats,
    stops: Ints,
    bands: Bands,
    moments: Floats,
) -> None:
    """Fill moments [M, 10] (zeros on entry) from dL/dimage; lists, stops, bands and image are the forward's."""
    height, width = image.shape[0], image.shape[1]
    for t in range(stops.shape[0]):
        left, top = TILE * (t % columns), TILE * (t // columns)
        clear_tile(planes, left, top, width, height)
        for k in range(_PIXELS):
            x, y = pixel_of(k, left, top)
            if x < width and y < height:
                for channel in range(3):
                    planes[(4 + channel) * _PIXELS + k] = grad_image[y, x, channel]
                    planes[3 * _PIXELS + k] += grad_image[y, x, channel] * image[y, x, channel]
        adjoint_tile(planes, packed, lists, starts[t], stops[t], bands, moments)


@njit(**ROW)
def row_gradients(
    moments: Floats, conics: Floats, opacities: Floats, means: Floats, grad_conics: Floats, grad_o: Floats
) -> None:
    """Turn moments into gradients of means [M, 2], conics [M, 3] and opacities [M] (zeros on entry)."""
    for i in range(moments.shape[0]):
        if moments[i, 9] > F(0):
            a, b, c = conics[i, 0], conics[i, 1], conics[i, 2]
            means[i, 0] = a * moments[i, 1] + b * moments[i, 2]
            means[i, 1] = b * moments[i, 1] + c * moments[i, 2]
            grad_conics[i, 0] = F(-0.5) * moments[i, 3]
            grad_conics[i, 1] = -moments[i, 4]
            grad_conics[i, 2] = F(-0.5) * moments[i, 5]
            grad_o[i] = moments[i, 0] / opacities[i]
