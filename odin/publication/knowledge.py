"""What a policy has learnt and decides by, at flushed state: with the table it is all that a resumed run needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Knowledge:
    """The same on all ranks. N rows, V training views.

    evidence: float32 [N], last published gradient norm of each row, NaN where there is none; None: not kept
    costs:    int64 [V], what each view cost at its last visit, 0 where it was never visited; None: not kept
    fallen:   an audit has failed, and reads are waited for until the next structural event
    """

    evidence: NDArray[np.float32] | None = None
    costs: NDArray[np.int64] | None = None
    fallen: bool = False
