"""Columns of the parameter table and the groups in which they are published.

Legend: N primitives (rows), D columns, G groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class ColumnGroup:
    """A run of columns that is first read at one point of a step (D§6: geometry before projection, colour
    before the blend) and can therefore be waited for on its own.

    columns first…last-1 of the table.
    """

    name: str
    first: int
    last: int

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.last - self.first


VISIBLE = "visible"


@dataclass(frozen=True, kw_only=True)
class ColumnLayout:
    """All D columns, split into G adjacent groups in column order; geometry is group 0, colour group 1."""

    groups: tuple[ColumnGroup, ...]

    @property
    def columns(self) -> int:
        """D."""
        return self.groups[-1].last

    @property
    def bounds(self) -> NDArray[np.int64]:
        """First column of each group, and D at the end; int64 [G+1]."""
        return np.array([g.first for g in self.groups] + [self.columns], np.int64)

    @property
    def every_group(self) -> tuple[int, ...]:
        """Indices of all groups."""
        return tuple(range(len(self.groups)))

    def with_visible(self) -> ColumnLayout:
        """This layout and one more column, in which selective Adam's slots count the views that saw a row (D§5)."""
        visible = ColumnGroup(name=VISIBLE, first=self.columns, last=self.columns + 1)
        return ColumnLayout(groups=(*self.groups, visible))
