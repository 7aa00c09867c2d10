"""Adjoint of the surfel blend, replayed front to back.

With φ = dL/dweight of a fragment and `behind` the sum of weight·φ of those after it, dL/d(log alpha) is
weight·φ - behind·alpha/(1 - alpha). The distortion A·S has dL/dweight = A·(m - mean)² + S and dL/dm =
2·weight·A·(m - mean), all sums being those of the finished pixel.

Legend: M rows, H, W image. moments float32 [M, 21]; see `SUMS`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pipelines.render.conventions import NEAR, TILE
from pipelines.render.cpu.blend_kernels import clear_tile, pixel_of
from pipelines.render.surfels.blend_kernels import (
    HIGH,
    NORMAL,
    OPACITY,
    PX,
    PY,
    RGB,
    SLOPE,
    SPAN,
    STOP,
    STRICT,
    Bands,
    Floats,
    Ints,
    K,
    Z,
    cut_alpha,
    raw_alpha,
    squared,
)
from pipelines.render.surfels.conventions import LOW_PASS
from pipelines.render.vectors import HELPER, ROW

F = np.float32
# Sums over pixels may be reordered into lanes.
_SUMS: dict[str, Any] = {**STRICT, "fastmath": {"nsz", "reassoc"}}

SUMS = 21
"""Sums of a row: dL/dU·(1, dx, dy), dL/dV·(1, dx, dy), dL/dD·(1, dx, dy), dL/dk₇ (U, V, D: numerators and denominator
of `protocol`); dL/d(dx), dL/d(dy), dL/dz of the low-pass filter; dL/d(log alpha); dL/drgb; dL/dnormal; weight."""

_PIXELS = TILE * TILE
_Y, _T = np.uint64(_PIXELS), np.uint64(2 * _PIXELS)
_BEHIND, _R, _G, _B, _N0, _N1, _N2, _DEPTH, _SCALE, _MEAN, _REST, _MEDIAN, _PLACE = (
    np.uint64(_PIXELS * k) for k in range(3, 16)
)
ADJOINT_PLANES = 16 * _PIXELS
_NEAR, _BLUR = F(NEAR), F(LOW_PASS)


@njit(**_SUMS)
def adjoint_band(planes: Floats, begin: int, end: int, packed: Floats, i: int, place: float) -> tuple[np.float32, ...]:
    """`SUMS` of row i over the pixels begin … end."""
    x, y = packed[i, PX], packed[i, PY]
    k0, k1, k2, k3 = packed[i, K], packed[i, K + 1], packed[i, K + 2], packed[i, K + 3]
    k4, k5, k6, k7 = packed[i, K + 4], packed[i, K + 5], packed[i, K + 6], packed[i, K + 7]
    z, opacity = packed[i, Z], packed[i, OPACITY]
    red, green, blue = packed[i, RGB], packed[i, RGB + 1], packed[i, RGB + 2]
    n0, n1, n2 = packed[i, NORMAL], packed[i, NORMAL + 1], packed[i, NORMAL + 2]
    su, sux, suy, sv, svx, svy = F(0), F(0), F(0), F(0), F(0), F(0)
    sd, sdx, sdy, sk = F(0), F(0), F(0), F(0)
    sx, sy, sz, sa = F(0), F(0), F(0), F(0)
    s_red, s_green, s_blue, s0, s1, s2, total = F(0), F(0), F(0), F(0), F(0), F(0), F(0)
    for k in range(np.uint64(begin), np.uint64(end)):
        dx, dy = planes[k] - x, planes[_Y + k] - y
        inverse = F(1) / (k4 + k5 * dx + k6 * dy)
        u, v = (k0 * dx + k1 * dy) * inverse, (k2 * dx + k3 * dy) * inverse
        rho, blur = squared(u, v, dx, dy)
        met = rho <= blur
        depth = k7 * inverse if met else z
        seen = depth >= _NEAR
        depth = depth if seen else z
        raw = raw_alpha(rho if met else blur, opacity)
        alpha = cut_alpha(raw, seen)
        before = planes[_T + k]
        after = before * (F(1) - alpha)
        live = after >= STOP
        alpha = alpha if live else F(0)
        planes[_T + k] = after if live else -abs(before)
        weight = alpha * before
        away = SPAN - SLOPE / depth - planes[_MEAN + k]
        scale, g_depth = planes[_SCALE + k], planes[_DEPTH + k]
        phi = planes[_R + k] * red + planes[_G + k] * green + planes[_B + k] * blue
        phi += planes[_N0 + k] * n0 + planes[_N1 + k] * n1 + planes[_N2 + k] * n2
        phi += g_depth * depth + scale * away * away + planes[_REST + k]
        laid = weight * phi
        behind = planes[_BEHIND + k] - laid
        planes[_BEHIND + k] = behind
        g = laid - behind * alpha / (F(1) - alpha)
        g = g if raw <= HIGH else F(0)
        g_z = weight * (g_depth + F(2) * scale * away * SLOPE / (depth * depth))
        g_z += planes[_MEDIAN + k] if (planes[_PLACE + k] == place) & (weight > F(0)) else F(0)
        # Through u and v; -g/2 is dL/dρ.
        gu, gv = -g * u * inverse, -g * v * inverse
        gd = (g * (u * u + v * v) - g_z * depth) * inverse
        gk = g_z * inverse
        gu, gv = gu if met else F(0), gv if met else F(0)
        gd, gk = gd if met else F(0), gk if met else F(0)
        g_blur = F(0) if met else g
        su += gu
        sux += gu * dx
        suy += gu * dy
        sv += gv
        svx += gv * dx
        svy += gv * dy
        sd += gd
        sdx += gd * dx
        sdy += gd * dy
        sk += gk
        sx += g_blur * dx
        sy += g_blur * dy
        sz += F(0) if met else g_z
        sa += g
        s_red += weight * planes[_R + k]
        s_green += weight * planes[_G + k]
        s_blue += weight * planes[_B + k]
        s0 += weight * planes[_N0 + k]
        s1 += weight * planes[_N1 + k]
        s2 += weight * planes[_N2 + k]
        total += weight
    return (su, sux, suy, sv, svx, svy, sd, sdx, sdy, sk, sx, sy, sz, sa, s_red, s_green, s_blue, s0, s1, s2, total)


@njit(**HELPER)
def adjoint_tile(
    planes: Floats, packed: Floats, lists: Ints, start: int, stop: int, bands: Bands, moments: Floats
) -> None:
    """Add one tile's sums to moments [M, 21]."""
    for entry in range(start, stop):
        i = lists[entry]
        for column in range(2):
            first, last = np.int64(bands[entry, 2 * column]), np.int64(bands[entry, 2 * column + 1])
            if first <= last:
                base = 128 * column + 8 * first
                sums = adjoint_band(planes, base, base + 8 * (last - first + 1), packed, i, F(entry - start + 1))
                for j in range(21):
                    moments[i, j] += sums[j]


@njit(**HELPER)
def load_pixel(planes: Floats, k: int, image: Floats, maps: Floats, g_image: Floats, g: Floats, y: int, x: int) -> None:
    """Gradients and totals of pixel (x, y) into place k. g: dL/dmaps [H, W, 7]."""
    behind = F(0)
    for c in range(3):
        planes[(4 + c) * _PIXELS + k], planes[(7 + c) * _PIXELS + k] = g_image[y, x, c], g[y, x, 4 + c]
        behind += g_image[y, x, c] * image[y, x, c] + g[y, x, 4 + c] * maps[y, x, 4 + c]
    alpha, spread = maps[y, x, 0], maps[y, x, 8]
    rest = g[y, x, 3] * spread + g[y, x, 0]
    planes[10 * _PIXELS + k] = g[y, x, 1]
    planes[11 * _PIXELS + k], planes[12 * _PIXELS + k] = g[y, x, 3] * alpha, maps[y, x, 7]
    planes[13 * _PIXELS + k] = rest
    planes[14 * _PIXELS + k], planes[15 * _PIXELS + k] = g[y, x, 2], maps[y, x, 9]
    behind += g[y, x, 1] * maps[y, x, 1] + alpha * (rest + g[y, x, 3] * spread)
    planes[3 * _PIXELS + k] = behind


@njit(**ROW)
def blend_adjoint(
    packed: Floats,
    starts: Ints,
    lists: Ints,
    columns: int,
    planes: Floats,
    image: Floats,
    maps: Floats,
    grad_image: Floats,
    grad_maps: Floats,
    stops: Ints,
    bands: Bands,
    moments: Floats,
) -> None:
    """Fill moments [M, 21] (zeros on entry) from dL/dimage and dL/dmaps; all else is the forward's."""
    height, width = image.shape[0], image.shape[1]
    for t in range(stops.shape[0]):
        left, top = TILE * (t % columns), TILE * (t // columns)
        clear_tile(planes, left, top, width, height)
        for k in range(_PIXELS):
            x, y = pixel_of(k, left, top)
            if x < width and y < height:
                load_pixel(planes, k, image, maps, grad_image, grad_maps, y, x)
        adjoint_tile(planes, packed, lists, starts[t], stops[t], bands, moments)


@njit(**ROW)
def surfel_gradients(
    moments: Floats,
    packed: Floats,
    means: Floats,
    transforms: Floats,
    normals: Floats,
    depths: Floats,
    rgb: Floats,
    grad_o: Floats,
    contributed: NDArray[np.bool_],
) -> None:
    """Turn moments into the gradients of `SurfelGradients` (zeros on entry)."""
    for i in range(moments.shape[0]):
        if not moments[i, 20] > F(0):
            continue
        contributed[i] = True
        for axis in range(2):
            # dx = pixel - centre.
            through = moments[i, 0] * packed[i, K + axis] + moments[i, 3] * packed[i, K + 2 + axis]
            # dL/dρ = -g/2, ρ = LOW_PASS·(dx² + dy²).
            blur = _BLUR * moments[i, 10 + axis]
            means[i, axis] = blur - through - moments[i, 6] * packed[i, K + 5 + axis]
        transforms[i, 0], transforms[i, 1] = moments[i, 1], moments[i, 2]
        transforms[i, 2], transforms[i, 3] = moments[i, 4], moments[i, 5]
        transforms[i, 4], transforms[i, 5], transforms[i, 6] = moments[i, 6], moments[i, 7], moments[i, 8]
        transforms[i, 7], depths[i] = moments[i, 9], moments[i, 12]
        for j in range(3):
            rgb[i, j], normals[i, j] = moments[i, 14 + j], moments[i, 17 + j]
        grad_o[i] = moments[i, 13] / packed[i, OPACITY]
