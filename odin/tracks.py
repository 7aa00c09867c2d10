"""Tracks: which views see which SfM point, as compressed rows.

Legend: P tracks, O observations, V views.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odin.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Tracks:
    """Track → view ids in compressed-row form (the planner's only input from structure from motion).

    offsets: int64 [P+1], offsets[p]:offsets[p+1] are the observations of track p.
    views:   int32 [O], view indices in 0…view_count-1. A view may repeat within a track.
    view_count: V, number of views the indices refer to.

    Raises InputError when the arrays do not describe such a table.
    """

    offsets: NDArray[np.int64]
    views: NDArray[np.int32]
    view_count: int

    def __post_init__(self) -> None:
        ends = self.offsets.ndim == 1 and len(self.offsets) >= 1
        if not ends or self.offsets[0] != 0 or self.offsets[-1] != len(self.views):
            raise InputError(
                f"Track offsets must run from 0 to the number of observations ({len(self.views)}). "
                "The model's track table is inconsistent; export it again."
            )
        if np.any(np.diff(self.offsets) < 0):
            raise InputError("Track offsets decrease: a track has a negative length. Export the model again.")
        if len(self.views) and (self.views.min() < 0 or self.views.max() >= self.view_count):
            raise InputError(
                f"A track names view {int(self.views.max())}, but there are {self.view_count} views. "
                "The tracks and the image list do not belong together."
            )

    @classmethod
    def empty(cls, view_count: int) -> Tracks:
        """A table without tracks, for captures whose model has none."""
        return cls(offsets=np.zeros(1, np.int64), views=np.zeros(0, np.int32), view_count=view_count)

    @property
    def track_count(self) -> int:
        """P."""
        return len(self.offsets) - 1

    def restrict(self, keep: NDArray[np.integer]) -> Tracks:
        """The same tracks seen only by the views `keep`, renumbered 0…len(keep)-1 in that order."""
        new_id = np.full(self.view_count, -1, np.int32)
        new_id[keep] = np.arange(len(keep), dtype=np.int32)
        mapped = new_id[self.views]
        kept = mapped >= 0
        counts = np.concatenate([[0], np.cumsum(kept)])
        return Tracks(offsets=counts[self.offsets].astype(np.int64), views=mapped[kept], view_count=len(keep))
