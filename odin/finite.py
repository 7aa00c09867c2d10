"""Divergence is the end of a run, not a number in its record: NaN and infinity are looked for where state is whole.

A row whose position is NaN is drawn in no view, so no loss tells of it; only the table does. Steps and training views
count from 0, as in records.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odin.errors import RunError

_WHY = "The usual reasons are learning rates too high for the scene's scale and points far outside of it."


def require_finite_gradient(gradient: Any, step: int, view: int) -> None:
    """Raise RunError for a view's gradient that is no number: here, because summed over ranks it says no more whose it
    was. One on a device is not looked at, which would stop the host until it is there."""
    # A sum in float32 takes no notice of signs and NaN passes through it; an overflow is looked at twice.
    if isinstance(gradient, np.ndarray) and not math.isfinite(gradient.sum()) and not np.isfinite(gradient).all():
        raise RunError(
            f"Training has diverged: the gradient of step {step}, training view {view} is not a finite number. {_WHY} "
            "It may also be that the view's photo or pose holds values that are none."
        )


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
