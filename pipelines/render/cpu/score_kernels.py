"""What a rendered view says about each row: sums over the pixels it contributes to (TamingGS's pixel scores).

Walks the same lists in the same order as `blend`, with the same cuts, so a row contributes here exactly where it does
in the image. Sums are float64, tile after tile: they do not depend on which other rows are handed in.

Legend: M rows, E list entries, T tiles, H, W image size.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pipelines.render.conventions import ALPHA_MAX, ALPHA_MIN, TILE, TRANSMITTANCE_MIN
from pipelines.render.cpu.blend_kernels import clear_tile, pixel_of, raw_alpha
from pipelines.render.vectors import ROW

WEIGHT, COUNT, BLEND, DISTANCE = range(4)
"""Columns of the sums: of the pixels' weights, 1, alpha · transmittance, and pixels to the row's centre."""

_PIXELS = TILE * TILE
_LOW, _HIGH, _STOP = np.float32(ALPHA_MIN), np.float32(ALPHA_MAX), np.float32(TRANSMITTANCE_MIN)
_ONE, _ZERO = np.float32(1.0), np.float32(0.0)


@njit(**ROW)
def score_rows(
    packed: NDArray, starts: NDArray, lists: NDArray, columns: int, planes: NDArray, weights: NDArray,
    stops: NDArray, bands: NDArray, sums: NDArray,
) -> None:  # fmt: skip
    """Fill sums float64 [M, 4] (zeros on entry).

    packed [M, 16], starts [T+1], lists [E], stops [T], bands [E, 4]: of `blend`; weights: float32 [H, W]
    """
    height, width = weights.shape
    for t in range(stops.shape[0]):
        left, top = TILE * (t % columns), TILE * (t // columns)
        clear_tile(planes, left, top, width, height)
        for entry in range(starts[t], stops[t]):
            i = lists[entry]
            x, y = packed[i, 0], packed[i, 1]
            p, r, s, opacity = packed[i, 2], packed[i, 3], packed[i, 4], packed[i, 5]
            for column in range(2):
                first, last = np.int64(bands[entry, 2 * column]), np.int64(bands[entry, 2 * column + 1])
                for k in range(128 * column + 8 * first, 128 * column + 8 * (last + 1)):
                    before = planes[2 * _PIXELS + k]
                    if before < _ZERO:
                        continue
                    dx, dy = planes[k] - x, planes[_PIXELS + k] - y
                    alpha = min(raw_alpha(dx, dy, p, r, s, opacity), _HIGH)
                    if alpha < _LOW:
                        continue
                    after = before * (_ONE - alpha)
                    if after < _STOP:
                        planes[2 * _PIXELS + k] = -before
                        continue
                    planes[2 * _PIXELS + k] = after
                    column_of, row_of = pixel_of(k, left, top)
                    sums[i, 0] += weights[row_of, column_of]
                    sums[i, 1] += 1.0
                    sums[i, 2] += before * alpha
                    sums[i, 3] += math.sqrt(dx * dx + dy * dy)
