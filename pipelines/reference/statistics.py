"""Densification statistics that do not depend on the order of views or the number of ranks.

Upstream adds float norms of screen-space gradients; sums in another order differ in the last bit, and a threshold
turns that into another primitive. Here each view's norm is rounded once to a fixed point of 2⁻⁴⁰ and summed as
int64, so any grouping over ranks gives the same sum (D§5).

Legend: N primitives, M rows of a view.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

_ONE = float(2**40)
_LARGEST = float(2**10)  # never seen; 2¹⁰ · 2⁴⁰ · 8,192 visits still fit an int64


class DensificationStatistics:
    """Sums since the last structural event: `sums` int64 [N, 2], fixed-point gradient norm and visit count."""

    def __init__(self, rows: int) -> None:
        self.local = torch.zeros((rows, 2), dtype=torch.int64)

    def add(self, rows: NDArray[np.int32], norms: NDArray[np.float32], visible: NDArray[np.bool_]) -> None:
        """Add one view: screen-space gradient norms (NDC units) of the rows that were visible in it. [M] each."""
        fixed = np.rint(np.minimum(norms[visible].astype(np.float64), _LARGEST) * _ONE).astype(np.int64)
        sums = self.local.numpy()
        seen = rows[visible]
        sums[seen, 0] += fixed
        sums[seen, 1] += 1

    @staticmethod
    def mean_norm(sums: NDArray[np.int64]) -> NDArray[np.float64]:
        """Mean norm of each row over its visits, [N]; 0 where it was never visible."""
        return sums[:, 0] / _ONE / np.maximum(sums[:, 1], 1)
