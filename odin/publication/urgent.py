"""The exact policies: `quality` waits for conflicting rows, `paper-quality` for everything once there is a conflict.

Both are bit-identical to waiting for everything (D§5): a row is read only when it is published or when its pending
gradient is zero on every rank.
"""

from __future__ import annotations

import numpy as np

from odin.hazards import NONE
from odin.publication.layout import Classes
from odin.publication.scoped import ScopedPublication


class UrgentPublication(ScopedPublication):
    """`quality`: B waits for rows of W⁺(A) that it may read, at the first view that may read them."""

    def classes(self, step: int, found: Classes) -> Classes:
        """The first reader waits."""
        return found


class AllOrNonePublication(ScopedPublication):
    """`paper-quality`, §4.3 read strictly: a window with any conflict waits for the whole of A."""

    def classes(self, step: int, found: Classes) -> Classes:
        """All rows, written or not, are needed by the first view, unless RAW, WAW and WAR are all empty."""
        hazards = self._hazards
        assert hazards is not None
        if hazards.raw + hazards.waw + hazards.war == 0:
            return Classes(last=found.last, need=np.full(len(found.need), NONE, np.uint8))
        last = np.full(len(found.last), self.plan.views_per_unit - 1, np.uint8)
        return Classes(last=last, need=np.zeros(len(found.need), np.uint8))
