"""How far unpublished updates may still move a row (D§6 Scopes)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Inflation:
    """Bounds on what a scope must allow for, by class of row. N rows, L classes.

    level:  uint8 [N], class of each row (e.g. 0 = one update outstanding, 1 = two)
    shift:  float64 [L], radius in world units of the ball a centre may move in (√3·Σ lr·c(t))
    growth: float64 [L], how much the largest log-scale may grow (Σ lr·c(t))
    """

    level: NDArray[np.uint8]
    shift: NDArray[np.float64]
    growth: NDArray[np.float64]

    @classmethod
    def none(cls, rows: int) -> Inflation:
        """Everything is published: the plain cull predicate."""
        return cls(level=np.zeros(rows, np.uint8), shift=np.zeros(1), growth=np.zeros(1))


@njit(nogil=True, cache=True)
def levels(rows: int, settled: NDArray) -> NDArray:
    """Class 0 of the rows `settled` (int32 [R]), class 1 of all others, uint8 [rows]."""
    level = np.ones(rows, np.uint8)
    for k in range(np.uint64(settled.shape[0])):
        level[settled[k]] = 0
    return level
