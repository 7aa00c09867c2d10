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
def _u32(data: NDArray[np.uint8], at: np.uint64) -> np.uint64:  # pragma: no cover - compiled
    # Unsigned positions: with signed ones numpy's wrap-around is kept and the four loads do not become one.
    return (
        np.uint64(data[at])
        | (np.uint64(data[at + np.uint64(1)]) << np.uint64(8))
        | (np.uint64(data[at + np.uint64(2)]) << np.uint64(16))
        | (np.uint64(data[at + np.uint64(3)]) << np.uint64(24))
    )


@numba.njit(cache=True, nogil=True, inline="always")
def _u64(data: NDArray[np.uint8], at: np.uint64) -> np.uint64:  # pragma: no cover - compiled
    return _u32(data, at) | (_u32(data, at + np.uint64(4)) << np.uint64(32))


@numba.njit(cache=True, nogil=True)
def scan_points(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> tuple[int, int]:
    """Fill int64 [P+1] `offsets` from the bytes of points3D.bin.

    Returns (rows that fit, position after them); fewer rows than P means the file ends inside a record.
    """
    at = 8
    for row in range(len(offsets) - 1):
        if at + RECORD > len(data):
            return row, at
        length = _u64(data, np.uint64(at + HEAD))
        # A length that cannot fit is caught before it is multiplied, so it cannot overflow.
        if length > np.uint64((len(data) - at - RECORD) // 8):
            return row, at
        offsets[row + 1] = offsets[row] + np.int64(length)
        at += RECORD + 8 * np.int64(length)
    return len(offsets) - 1, at


@numba.njit(cache=True, nogil=True)
def copy_points(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    ids: NDArray[np.int64],
    xyz: NDArray[np.uint64],
    rgb: NDArray[np.uint8],
    image_ids: NDArray[np.int64],
    observation: NDArray[np.int64],
) -> None:
    """Copy ids [P], bits of the coordinates [P, 3], colours [P, 3] and track elements into two int64 [O], after
    `scan_points`."""
    at = np.uint64(8)
    for row in range(len(offsets) - 1):
        ids[row] = _u64(data, at)
        for axis in range(3):
            xyz[row, axis] = _u64(data, at + np.uint64(8 + 8 * axis))
            rgb[row, axis] = data[at + np.uint64(32 + axis)]
        at += np.uint64(RECORD)
        for element in range(np.uint64(offsets[row]), np.uint64(offsets[row + 1])):
            image_ids[element] = _u32(data, at)
            observation[element] = _u32(data, at + np.uint64(4))
            at += np.uint64(8)


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
