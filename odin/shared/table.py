"""A rank's view of the one table that all ranks of a process share.

Legend: N rows, D columns, R rows of one call, W ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from odin.errors import RunError
from odin.rows import Update
from odin.shared.meeting import Meeting, part_of
from odin.slot import Slot
from odin.table import ParameterTable

T = TypeVar("T")


class SharedTable(ParameterTable):
    """Storage is common, the step counter is the rank's own. Rows move when all ranks are at the same point of their
    program, each rank moving its part of them: the row kernel gives a row the same bits whichever rows go with it."""

    def __init__(self, source: ParameterTable, meeting: Meeting, rank: int, views: list[SharedTable]) -> None:
        """Rank `rank`'s view of the storage of `source`; `views` collects those of all ranks, in rank order."""
        self.rank, self._meeting, self._views = rank, meeting, views
        if source.held is not None:
            raise ValueError("sums of a held group belong to one rank; such a table is not shared")
        self.layout, self.selective, self.t, self.held = source.layout, source.selective, source.t, None
        self._adopt(source)
        views.append(self)

    @classmethod
    def views(cls, source: ParameterTable, meeting: Meeting) -> list[SharedTable]:
        """One view for each rank of the meeting."""
        views: list[SharedTable] = []
        for rank in range(meeting.ranks):
            cls(source, meeting, rank, views)
        return views

    def once(self, compute: Callable[[], T]) -> T:
        """See ParameterTable: computed by the rank that comes first."""
        return self._meeting.once(self.rank, compute)

    def replace(
        self,
        parameters: torch.Tensor,
        m: torch.Tensor,
        v: torch.Tensor,
        source: NDArray[np.int64] | None = None,
    ) -> None:
        """See ParameterTable; with copies, because ranks may have been given the same tensors to write on."""
        super().replace(parameters.clone(), m.clone(), v.clone(), source)

    def keep_evidence(self) -> NDArray[np.float32]:
        """See ParameterTable."""
        if self.evidence is None:
            self.evidence = self.once(lambda: np.full(len(self), np.nan, np.float32))
        return self.evidence

    def apply_gradient(self, update: Update, ids: NDArray[np.int32], lo: int, hi: int, slot: Slot) -> None:
        """See ParameterTable."""
        mine, step = self._mine(ids), super().apply_gradient
        self._meeting.together(lambda: step(update, mine, lo, hi, slot))

    def apply_zero(self, update: Update, ids: NDArray[np.int32]) -> None:
        """See ParameterTable."""
        mine, step = self._mine(ids), super().apply_zero
        self._meeting.together(lambda: step(update, mine))

    def apply_correction(self, update: Update, ids: NDArray[np.int32], slot: Slot) -> None:
        """See ParameterTable."""
        mine, step = self._mine(ids), super().apply_correction
        self._meeting.together(lambda: step(update, mine, slot))

    def advance(self, before: Update, slot: Slot, update: Update, ids: NDArray[np.int32]) -> None:
        """See ParameterTable."""
        mine, step = self._mine(ids), super().advance
        self._meeting.together(lambda: step(before, slot, update, mine))

    def remember(self, ids: NDArray[np.int32], slot: Slot, scale: float) -> None:
        """See ParameterTable."""
        mine, step = self._mine(ids), super().remember
        self._meeting.together(lambda: step(mine, slot, scale))

    def part(self) -> None:
        """Take a copy of one's own, for an event that may write anywhere. Ranks meet, so that all copy the same."""
        self._meeting.everyone()
        self.parameters, self.m, self.v = self.parameters.clone(), self.m.clone(), self.v.clone()
        self._hold()
        if self.evidence is not None:
            self.evidence = self.evidence.copy()
        self._meeting.everyone()

    def join(self) -> None:
        """Give the copy up again for the first rank's. Raises RunError where the two differ."""
        self._meeting.everyone()
        first = self._views[0]
        if self is not first:
            self._require_equal(first)
        self._meeting.everyone()
        if self is not first:
            self._adopt(first)

    def _mine(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        return ids[part_of(len(ids), self.rank, self._meeting.ranks)]

    def _adopt(self, source: ParameterTable) -> None:
        self.parameters, self.m, self.v = source.parameters, source.m, source.v
        self._moments, self.every_row, self.evidence = source.moments, source.every_row, source.evidence

    def _require_equal(self, first: ParameterTable) -> None:
        pairs = (
            (self.moments.p, first.moments.p),
            (self.moments.m, first.moments.m),
            (self.moments.v, first.moments.v),
        )
        same = (a is b or np.array_equal(a.view(np.uint32), b.view(np.uint32)) for a, b in pairs)
        if self.t != first.t or not all(same):
            raise RunError(
                f"After a structural event the table of rank {self.rank} differs from rank 0's. Replicas must stay "
                "identical; the run was stopped and its record is marked failed."
            )
