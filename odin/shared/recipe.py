"""A rank's recipe where the table is shared: ranks cull together, and events leave one table.

Legend: B views of a step, W ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odin.arriving import taken
from odin.bitmap import words
from odin.inflation import Inflation
from odin.keeper import Keeper
from odin.recipe import Event, Recipe, Reduce
from odin.shared.meeting import Meeting, part_of
from odin.shared.table import SharedTable


class SharedRecipe:
    """Passes every call on to `inner`, whose table is the rank's view of the shared one.

    batch: B; scopes of so many views are asked for by all ranks alike, scopes of fewer are the rank's own
    board:  where ranks lay down their part of such scopes, common to all ranks of the meeting
    """

    def __init__(self, inner: Recipe[Any], table: SharedTable, meeting: Meeting, batch: int) -> None:
        self.inner, self._table, self._meeting, self._batch = inner, table, meeting, batch
        inner.table = table

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def scope(self, views: Sequence[int], inflation: Inflation) -> NDArray[np.uint64]:
        """Scopes of a whole step: each rank culls its part of the views."""
        if len(views) != self._batch or self._meeting.ranks == 1:
            return taken(self.inner.scope(views, inflation))
        rows = len(self._table)
        bits = self._table.once(lambda: np.empty((len(views), words(rows)), np.uint64))
        mine = part_of(len(views), self._table.rank, self._meeting.ranks)

        def cull() -> None:
            if views[mine]:
                bits[mine] = taken(self.inner.scope(views[mine], inflation))

        self._meeting.together(cull)
        return bits

    def restructure(self, step: int, events: Event, version: int, reduce: Reduce, keeper: Keeper) -> None:
        """Every rank carries out the event on a copy of its own, as it would alone; the copies must come out equal."""
        self._table.part()
        self.inner.restructure(step, events, version, reduce, keeper)
        self._table.join()
