"""Gradient evidence g(p): per-row norms from a slot, kept beside the table (§4.1, §4.3 throughput-first).

Norms run over all columns of a row, so one number stands for the whole primitive.

Legend: N rows, R rows of one call.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odin.layout import ColumnLayout
from odin.slot import Slot

Ids = NDArray[np.int32]
Norms = NDArray[np.float32]


def row_norms(slot: Slot, layout: ColumnLayout, rows: Ids, scale: float) -> Norms:
    """‖g(p)‖ · scale of `rows`, float32 [R]; 0 marks a row without gradient."""
    return slot.norms(rows, layout, scale)


def active_mean(norms: Norms) -> float:
    """Mean norm over the active rows (norm above 0 and known), NaN where none is active."""
    known = norms[norms > 0]  # NaN compares false
    return float(known.mean(dtype=np.float64)) if len(known) else float("nan")


@dataclass(frozen=True, kw_only=True)
class Gate:
    """The gradient gate of §4.3: pass if ‖g(p)‖ ≤ τ · mean over the active set; no evidence, no pass."""

    tau: float

    def passes(self, norms: Norms, mean: float) -> NDArray[np.bool_]:
        """Which rows pass; NaN and 0 are no evidence, and with an empty active set nothing passes."""
        return (norms > 0) & (norms <= np.float32(self.tau * mean)) if mean == mean else np.zeros(len(norms), bool)


def hold_ratio(candidates: Ids, norms: Norms, most: int) -> Ids:
    """The `most` candidates with the smallest norms (ties by id), ascending: ρ is held by taking the largest norms out.

    candidates: int32 [R] ascending; norms: float32 [R]
    """
    if len(candidates) <= most:
        return candidates
    order = np.argsort(norms, kind="stable")[:most]
    return np.sort(candidates[order])
