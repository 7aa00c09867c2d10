"""The rows of all tracks in track order, a piece of the tracks at a time, without holding all of them (D§12).

Rows are gone through twice: to count how many begin with each view, and to put them in their places. To hold all rows
in between takes as much memory as the table they go to; to collect them twice takes time. So each thread holds some.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from odin.planner import row_kernels as kernels
from odin.tracks import Tracks

# Observations of a piece, at least, and entries after which no further piece is held: 32 MiB, from where on the C
# library gives memory back as soon as it is freed.
PIECE = 1 << 23


@dataclass(kw_only=True)
class Pieces:
    """Rows of the tracks lo…hi-1 that one thread handles.

    limit: uint32 [V], the highest hash of a track that each view keeps, or [0]: views keep all
    cap:   most views of a row
    """

    tracks: Tracks
    limit: NDArray[np.uint32]
    cap: int
    lo: int
    hi: int
    _held: list[NDArray[np.uint32]] = field(default_factory=list)

    def count(self) -> NDArray[np.uint32]:
        """How many entries of rows of two views and more begin with each view, uint32 [V]."""
        entries = np.zeros(self.tracks.view_count, np.uint32)
        held = 0
        for lo, hi in self._cuts():
            rows = self._collect(lo, hi, entries)
            if held < PIECE:
                self._held.append(rows)
                held += len(rows)
        return entries

    def rows(self) -> Iterator[NDArray[np.uint32]]:
        """All rows after `count`, in order, as `kernels.place_rows` reads them; what was held is let go of."""
        unused = np.zeros(self.tracks.view_count, np.uint32)
        for lo, hi in self._cuts():
            yield self._held.pop(0) if self._held else self._collect(lo, hi, unused)

    def _cuts(self) -> Iterator[tuple[int, int]]:
        observations = int(self.tracks.offsets[self.hi] - self.tracks.offsets[self.lo])
        return pairwise(np.linspace(self.lo, self.hi, max(observations // PIECE, 1) + 1).astype(np.int64).tolist())

    def _collect(self, lo: int, hi: int, entries: NDArray[np.uint32]) -> NDArray[np.uint32]:
        offsets = self.tracks.offsets
        # Room for everything: memory that is not written to is not taken, and a sample's rows need a fraction.
        room = np.empty(offsets[hi] - offsets[lo] + 2, np.uint32)
        highest = self.limit.max(initial=0)
        end = kernels.collect_rows(offsets, self.tracks.views, lo, hi, self.limit, highest, self.cap, room, entries)
        return room[1:end]
