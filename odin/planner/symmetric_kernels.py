"""Kernels that turn one-sided edge lists into the symmetric, sorted rows of a `LocalityGraph`.

Legend: V views, k kept neighbours, E stored edges.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

_ID = np.uint64(0xFFFFFFFF)
_S32 = np.uint64(32)


@njit(nogil=True, cache=True, inline="always")
def _unwanted(kept: NDArray, fill: NDArray, view: int, key: int, other: int) -> bool:  # pragma: no cover - compiled
    """Whether `other` did not keep the edge of `key`, which `view` keeps. A list that is not full keeps all."""
    mirrored = (key & ~_ID) | (_ID - np.uint64(view))
    return fill[other] == kept.shape[1] and mirrored < kept[other, kept.shape[1] - 1]


@njit(nogil=True, cache=True)
def kept_degree(kept: NDArray, fill: NDArray, degree: NDArray) -> None:  # pragma: no cover - compiled
    """Add to degree, int64 [V], the edges that either end keeps."""
    for view in range(len(fill)):
        degree[view] += fill[view]
        for at in range(fill[view]):
            key = kept[view, at]
            other = np.int64(_ID - (key & _ID))
            degree[other] += _unwanted(kept, fill, view, key, other)


@njit(nogil=True, cache=True)
def kept_edges(
    kept: NDArray, fill: NDArray, at_view: NDArray, neighbours: NDArray, bits: NDArray
) -> None:  # pragma: no cover - compiled
    """Write the edges that either end keeps in both directions, unsorted; bits: the weights' uint32 [E]."""
    for view in range(len(fill)):
        for at in range(fill[view]):
            key = kept[view, at]
            other = np.int64(_ID - (key & _ID))
            weight = np.uint32(key >> _S32)
            neighbours[at_view[view]], bits[at_view[view]] = other, weight
            at_view[view] += 1
            if _unwanted(kept, fill, view, key, other):
                neighbours[at_view[other]], bits[at_view[other]] = view, weight
                at_view[other] += 1


@njit(nogil=True, cache=True)
def transpose(
    offsets: NDArray, neighbours: NDArray, bits: NDArray, at_view: NDArray, to: NDArray, to_bits: NDArray
) -> None:  # pragma: no cover - compiled
    """Transpose a table of rows. A symmetric table is its own transpose, now with ascending rows."""
    for view in range(len(offsets) - 1):
        for edge in range(offsets[view], offsets[view + 1]):
            slot = at_view[neighbours[edge]]
            to[slot], to_bits[slot] = view, bits[edge]
            at_view[neighbours[edge]] = slot + 1


@njit(nogil=True, cache=True)
def pair_degree(offsets: NDArray, others: NDArray, degree: NDArray) -> None:  # pragma: no cover - compiled
    """Add to degree, int64 [V], both ends of pairs listed once at their lower view (`offsets`, `others`)."""
    for view in range(len(degree)):
        degree[view] += offsets[view + 1] - offsets[view]
        for edge in range(offsets[view], offsets[view + 1]):
            degree[others[edge]] += 1


@njit(nogil=True, cache=True)
def mirror_pairs(
    offsets: NDArray, others: NDArray, bits: NDArray, at_view: NDArray, neighbours: NDArray, to_bits: NDArray
) -> None:  # pragma: no cover - compiled
    """Write pairs listed once in both directions, unsorted."""
    for view in range(len(offsets) - 1):
        for edge in range(offsets[view], offsets[view + 1]):
            other = others[edge]
            neighbours[at_view[view]], to_bits[at_view[view]] = other, bits[edge]
            at_view[view] += 1
            neighbours[at_view[other]], to_bits[at_view[other]] = view, bits[edge]
            at_view[other] += 1
