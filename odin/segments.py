"""Segments: how a step's gradient is cut up to travel, and when each piece is published (D§6 Segments).

A segment is one collective: a contiguous slice of the gradient slot. It is made of blocks (rows × column groups, laid
out row after row) and says at which point of its own step it leaves. Its parts say which rows and groups are
published at which point of the next step. Everything here is the same on all ranks. All three are tuples: a cut makes
some 30 of them in every step, and a frozen dataclass takes more than twice as long to make.

Legend: N rows, G column groups, R rows of one block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from odin.memory import Holding, MemoryCategory
from odin.points import CLOSE, COLOURS, Point


class Block(NamedTuple):
    """Rows (int32 [R], each once) whose columns of `groups` lie side by side in the slot."""

    rows: NDArray[np.int32]
    groups: tuple[int, ...]


class Part(NamedTuple):
    """Rows (int32 [R]) and groups lo…hi-1 that are published together at point `due` of the next step.

    corrects: the rows have taken their zero-gradient step already and are corrected (predicted reads)
    """

    due: Point
    rows: NDArray[np.int32]
    lo: int
    hi: int
    corrects: bool = False


class SegmentSpec(NamedTuple):
    """One collective of a step: blocks in slot order, the point at which it leaves, and what it publishes."""

    name: str
    blocks: tuple[Block, ...]
    launch: Point = CLOSE
    parts: tuple[Part, ...] = ()

    def holdings(self) -> Iterator[Holding]:
        """The row lists of its blocks and parts (`odin.memory`)."""
        for rows in [block.rows for block in self.blocks] + [part.rows for part in self.parts]:
            yield MemoryCategory.ROW_LISTS, rows


def two_buckets(
    rows: NDArray[np.int32], visible: tuple[int, ...] = (), colours: tuple[int, ...] = (1,)
) -> list[SegmentSpec]:
    """All colours, then all geometry: what DDP's buckets would send while backward still runs.

    colours: indices of the colour groups
    visible: index of the visible column's group, if there is one; it travels with a row's first segment
    """
    return [
        SegmentSpec(name="colours", blocks=(Block(rows=rows, groups=(*colours, *visible)),), launch=COLOURS),
        SegmentSpec(name="geometry", blocks=(Block(rows=rows, groups=(0,)),)),
    ]
