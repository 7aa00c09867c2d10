"""Numba kernels for points3D.bin and for checking tracks: one pass over bytes, no object per track.

Record of points3D.bin: u64 id, 3 f64 xyz, 3 u8 rgb, f64 error, u64 length L, then L × (u32 image, u32 index).
Integers are put together byte by byte because records are not aligned; LLVM turns that into one load.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

HEAD = 43  # id, xyz, rgb, error
RECORD = HEAD + 8  # with the track length


@numba.njit(cache=True, nogil=True, inline="always")
def _u32(data: NDArray[np.uint8], at: int) -> np.int64:  # pragma: no cover - compiled
    return (
        np.int64(data[at])
        | (np.int64(data[at + 1]) << 8)
        | (np.int64(data[at + 2]) << 16)
        | (np.int64(data[at + 3]) << 24)
    )


@numba.njit(cache=True, nogil=True)
def scan_points(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> tuple[int, int]:
    """Fill int64 [P+1] `offsets` from the bytes of points3D.bin.

    Returns (rows that fit, position after them); fewer rows than P means the file ends inside a record.
    """
    at = 8
    for row in range(len(offsets) - 1):
        if at + RECORD > len(data):
            return row, at
        low = _u32(data, at + HEAD)
        high = _u32(data, at + HEAD + 4)
        # A length that cannot fit is caught before it is multiplied, so it cannot overflow.
        if high != 0 or low > (len(data) - at - RECORD) // 8:
            return row, at
        offsets[row + 1] = offsets[row] + low
        at += RECORD + 8 * low
    return len(offsets) - 1, at


@numba.njit(cache=True, nogil=True)
def copy_points(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    heads: NDArray[np.uint8],
    image_ids: NDArray[np.int64],
    observation: NDArray[np.int64],
) -> None:
    """Copy record heads into uint8 [P, HEAD] and track elements into two int64 [O], after `scan_points`."""
    at = 8
    for row in range(len(offsets) - 1):
        for byte in range(HEAD):
            heads[row, byte] = data[at + byte]
        at += RECORD
        for element in range(offsets[row], offsets[row + 1]):
            image_ids[element] = _u32(data, at)
            observation[element] = _u32(data, at + 4)
            at += 8


@numba.njit(cache=True, nogil=True)
def agreeing(
    point_ids: NDArray[np.int64],
    offsets: NDArray[np.int64],
    views: NDArray[np.int32],
    observation: NDArray[np.int64],
    observed_offsets: NDArray[np.int64],
    observed_ids: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """bool [O]: the view's 2D observation at the given index names the very point the track belongs to.

    point_ids [P] and offsets [P+1] describe the tracks; views [O] are rows of `observed_offsets`, -1 unknown.
    """
    same = np.zeros(len(views), np.bool_)
    for row in range(len(point_ids)):
        for element in range(offsets[row], offsets[row + 1]):
            view = views[element]
            if view < 0:
                continue
            start = observed_offsets[view]
            index = observation[element]
            if 0 <= index < observed_offsets[view + 1] - start:
                same[element] = observed_ids[start + index] == point_ids[row]
    return same
