"""How far one Adam update can move a column: c(t)·lr (D§6 Scopes; RUNTIME.md 4 has the derivation).

By Cauchy-Schwarz over the gradient history, |m̂|/√v̂ ≤ c(t) with
c(t) = (1-β1)/√(1-β2) · √((1-qᵗ)/(1-q)) · √(1-β2ᵗ)/(1-β1ᵗ), q = β1²/β2. It is tight (gradients growing like
(β1/β2)^-i attain it), 1.0 at t = 1 and at most 7.2703. Rows whose moments were zeroed by a structural event
satisfy it too, because a zero history is a history.
"""

from __future__ import annotations

import math

BETA1 = 0.9
BETA2 = 0.999
# float32 moments exceed the real bound by up to 1.2e-7 relative; 1e-4 covers that a thousand times over.
ROUNDING = 1.0001


def adam_bound(t: int, beta1: float = BETA1, beta2: float = BETA2) -> float:
    """Largest |update| / lr of a column at Adam step `t` ≥ 1, after any gradients at all. Needs β1² < β2."""
    q = beta1 * beta1 / beta2
    history = math.sqrt((1.0 - q**t) / (1.0 - q))
    correction = math.sqrt(1.0 - beta2**t) / (1.0 - beta1**t)
    return (1.0 - beta1) / math.sqrt(1.0 - beta2) * history * correction * ROUNDING


def selective_bound(t: int) -> float:
    """`adam_bound` for Adam without bias correction (SparseGaussianAdam of 3DGS), for a row at its `t`-th update or
    before: 3.16 at t = 1, at most 7.27. It grows with t, so the step counter bounds every row's own count."""
    q = BETA1 * BETA1 / BETA2
    history = math.sqrt((1.0 - q**t) / (1.0 - q))
    return (1.0 - BETA1) / math.sqrt(1.0 - BETA2) * history * ROUNDING
