"""Segments: how a step's gradient is cut up to travel, and when each piece is published (D§6 Segments).

A segment is one collective: a contiguous slice of the gradient slot. It is made of blocks (rows × column groups, laid
out row after row) and says at which point of its own step it leaves. Its parts say which rows and groups are
published at which point of the next step. Everything here is the same on all ranks.

Legend: N rows, G column groups, R rows of one block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from odin.points import CLOSE, COLOURS, Point


@dataclass(frozen=True, kw_only=True)
class Block:
    """Rows (int32 [R], each once) whose columns of `groups` lie side by side in the slot."""

    rows: NDArray[np.int32]
    groups: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Part:
    """Rows (int32 [R]) and groups lo…hi-1 that are published together at point `due` of the next step.

    corrects: the rows have taken their zero-gradient step already and are corrected (predicted reads)
    """

    due: Point
    rows: NDArray[np.int32]
    lo: int
    hi: int
    corrects: bool = False


@dataclass(frozen=True, kw_only=True)
class SegmentSpec:
    """One collective of a step: blocks in slot order, the point at which it leaves, and what it publishes."""

    name: str
    blocks: tuple[Block, ...]
    launch: Point = CLOSE
    parts: tuple[Part, ...] = ()


def two_buckets(rows: NDArray[np.int32], visible: tuple[int, ...] = ()) -> list[SegmentSpec]:
    """All colours, then all geometry: what DDP's buckets would send while backward still runs.

    visible: index of the visible column's group, if there is one; it travels with a row's first segment
    """
    return [
        SegmentSpec(name="colours", blocks=(Block(rows=rows, groups=(1, *visible)),), launch=COLOURS),
        SegmentSpec(name="geometry", blocks=(Block(rows=rows, groups=(0,)),)),
    ]


def digest(specs: Sequence[SegmentSpec]) -> int:
    """Hash of a partition, equal on ranks that cut a step alike; 31 bits, so that it fits any store."""
    value = 0
    for spec in specs:
        launch = spec.launch.kind.value, spec.launch.position
        value = crc32(repr((spec.name, launch, len(spec.blocks))).encode(), value)
        for block in spec.blocks:
            value = crc32(repr((block.groups, len(block.rows))).encode(), value)
            value = crc32(block.rows.tobytes(), value)
    return value & 0x7FFFFFFF
