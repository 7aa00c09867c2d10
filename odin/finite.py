"""Divergence is the end of a run, not a number in its record: NaN and infinity are looked for where state is whole.

A row whose position is NaN is drawn in no view, so no loss tells of it; only the table does.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from odin.errors import RunError

_WHY = "The usual reasons are learning rates too high for the scene's scale and points far outside of it."


def require_finite_loss(loss: float, step: int, views: NDArray[np.integer]) -> None:
    """Raise RunError where a rank's mean loss in a step over training views [B] is not finite."""
    if not math.isfinite(loss):
        named = ", ".join(map(str, views))
        raise RunError(f"Training has diverged: the loss of step {step} over training views {named} is {loss}. {_WHY}")


def require_finite_rows(values: NDArray[np.float32], step: int) -> None:
    """Raise RunError where a row of a table [N, D] is not finite after a step."""
    bad = ~np.isfinite(values).all(axis=1)
    if bad.any():
        raise RunError(
            f"Training has diverged: after step {step} {int(bad.sum())} of {len(values)} primitives hold NaN or "
            f"infinity, the first is row {int(bad.argmax())}. {_WHY}"
        )
