"""Morton order of primitives, so that rows near in space are near in memory (D§6 Scopes).

Legend: N primitives.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_BITS = 21  # per axis, 63 in all


def morton_order(xyz: NDArray[np.float32]) -> NDArray[np.int64]:
    """Row order by interleaved bits of the position, int64 [N]; ties keep their order. xyz: [N, 3]."""
    return np.argsort(morton_codes(xyz, xyz.min(axis=0), xyz.max(axis=0)), kind="stable")


def morton_codes(xyz: NDArray[np.float32], low: NDArray[np.float32], high: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Codes of 63 bits, uint64 [N], in the box from `low` to `high` ([3] each), which holds all of xyz."""
    lowest, highest = low.astype(np.float64), high.astype(np.float64)
    span = np.where(highest > lowest, highest - lowest, 1.0)
    cell = ((xyz - lowest) / span * (2**_BITS - 1)).astype(np.uint64)
    code: NDArray[np.uint64] = (
        _spread(cell[:, 0]) | (_spread(cell[:, 1]) << np.uint64(1)) | (_spread(cell[:, 2]) << np.uint64(2))
    )
    return code


def _spread(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Insert two zero bits after each of the low 21 bits."""
    for shift, mask in (
        (32, 0x1F00000000FFFF),
        (16, 0x1F0000FF0000FF),
        (8, 0x100F00F00F00F00F),
        (4, 0x10C30C30C30C30C3),
        (2, 0x1249249249249249),
    ):
        x = (x | (x << np.uint64(shift))) & np.uint64(mask)
    return x
