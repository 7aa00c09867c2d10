"""The cut of a step into segments from what its rows are needed for: a pure function of replicated data.

A row of step A is `ready` after the last view of A that may touch it, and has a `need`: the first view of B that may
read it, or one of the three below. Link order: rows that are ready early, colours that fit into the last projection
backward, urgent geometry, urgent colours, the rest (D§6 Segments).

Legend: N rows, U views per unit, G column groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from zlib import crc32

import numpy as np
from numba import njit
from numpy.typing import NDArray

from odin.hazards import NONE
from odin.points import CLOSE, COLOURS, colour, geometry, view_done
from odin.segments import Block, Part, SegmentSpec

Ids = NDArray[np.int32]

DELAYED = 254  # B may read the row, but does not wait for it
CHUNK = "chunk"
REST = NONE  # written in A and not read in B


@dataclass(frozen=True, kw_only=True)
class Classes:
    """What each row of step A is needed for.

    last: uint8 [N], position of the last view of A that may write the row, NONE outside W⁺(A)
    need: uint8 [N], position of the first view of B that has to wait for the row, or DELAYED, or REST
    """

    last: NDArray[np.uint8]
    need: NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class Cutting:
    """How to cut.

    unit:         views per unit
    groups:       number of column groups
    read:         how many of the first groups the next step may wait for; the others are held back (odin/held.py) and
                  published at its end. None: all
    split:        whether groups are published apart
    early:        how many rows may leave before the last view, None for all, 0 for none
    lead:         of how many rows the colours may leave first, None for all
    corrects:     delayed rows have taken their zero-gradient step
    chunks:       pieces that delayed rows travel in, in the order of `rank_of` (0: with the rest)
    rank_of:      sorts delayed rows for chunks, most urgent first
    visible:      (group,) of the visible column of selective Adam, or ()
    """

    unit: int
    groups: int
    split: bool
    early: int | None
    lead: int | None
    corrects: bool = False
    chunks: int = 0
    rank_of: Callable[[Ids], Ids] = lambda ids: ids
    visible: tuple[int, ...] = ()
    read: int | None = None

    @property
    def everything(self) -> tuple[int, ...]:
        """All groups of a row."""
        return (*range(self.groups), *self.visible)

    @property
    def reads(self) -> int:
        """How many of the first groups the next step may wait for."""
        return self.groups if self.read is None else self.read

    @property
    def held(self) -> tuple[int, ...]:
        """Groups that no reader waits for."""
        return tuple(range(self.reads, self.groups))


@dataclass(frozen=True)
class Cut:
    """The segments of a step in link order.

    outside: rows outside W⁺(A), which take a zero-gradient step at p0
    delayed: rows that the next step may read before they are published
    digest:  31 bits that are equal on ranks which cut alike
    """

    segments: tuple[SegmentSpec, ...]
    outside: Ids
    delayed: Ids
    digest: int


NO_CUT = Cut(segments=(), outside=np.empty(0, np.int32), delayed=np.empty(0, np.int32), digest=0)


def lay_out(classes: Classes, cutting: Cutting) -> Cut:
    """Cut a step into segments."""
    sorted_rows = _Sorted(classes, cutting)
    segments = [*_early(sorted_rows, cutting), *_late(sorted_rows, cutting)]
    return Cut(
        segments=tuple(segment for segment in segments if segment.blocks),
        outside=sorted_rows.outside,
        delayed=sorted_rows.delayed,
        digest=_digest(classes, cutting, segments),
    )


def _digest(classes: Classes, cutting: Cutting, segments: Sequence[SegmentSpec]) -> int:
    """A cut is a function of classes and numbers, which enter here, and of the order of rows in chunks."""
    # Python's hash of a tuple of integers is the same in every process; that of text or None is not.
    early, lead = -1 if cutting.early is None else cutting.early, -1 if cutting.lead is None else cutting.lead
    switches = (cutting.unit, cutting.groups, cutting.split, cutting.corrects, cutting.chunks, cutting.visible)
    value = hash((early, lead, switches, fold(classes.last, classes.need)))
    if cutting.chunks:
        for spec in segments:
            if spec.name.startswith(CHUNK):
                value = hash((value, crc32(spec.blocks[0].rows.tobytes())))
    return value & 0x7FFFFFFF


_KERNEL: dict[str, Any] = {"nogil": True, "cache": True}
_FACTOR, _SEED = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)  # odd
_HALF, _SIGN = np.uint64(32), np.uint64(0x7FFFFFFFFFFFFFFF)


@njit(**_KERNEL)
def fold(last: NDArray, need: NDArray) -> np.int64:
    """63 bits of two rows of labels, uint8 [N], in a fifth of the time of a CRC. Each step is one-to-one in its word
    and in what came before, so labels that differ in one place alone fold to different 64 bits."""
    # Eight labels to a word; the two chains run side by side, as a product takes longer than it holds up others.
    whole = last.shape[0] // 8 * 8
    a, b, words = _SEED, _FACTOR, (last[:whole].view(np.uint64), need[:whole].view(np.uint64))
    for k in range(np.uint64(whole // 8)):
        a, b = _turned(a ^ words[0][k]), _turned(b ^ words[1][k])
    for k in range(np.uint64(whole), np.uint64(last.shape[0])):
        a, b = _turned(a ^ np.uint64(last[k])), _turned(b ^ np.uint64(need[k]))
    return np.int64(_turned(a ^ _turned(b)) & _SIGN)


@njit(**_KERNEL)
def _turned(value: np.uint64) -> np.uint64:
    """A word times an odd factor, halves exchanged so that high bits, which a product leaves alone, come low."""
    value *= _FACTOR
    return value >> _HALF | value << _HALF


class _Sorted:
    """Rows by (ready, need). Needs are in link order: positions 0…U-1, delayed, rest, outside W⁺.

    Rows that leave together are neighbours in the sorted list wherever no budget and no chunk comes between: they are
    then one block. Fewer blocks are laid out in less time, and a block of all is the blocks of each, row for row.
    """

    def __init__(self, classes: Classes, cutting: Cutting) -> None:
        unit = cutting.unit
        self.unit, self.needs = unit, unit + 3
        table = _labels(unit, cutting.early != 0)
        self._ids, starts = sort_rows(classes.last, classes.need, table, unit * self.needs)
        self._starts = starts.tolist()
        self.outside = self.rows(0 if cutting.early != 0 else unit - 1, unit + 2)
        self.delayed = _joined([self.rows(ready, unit) for ready in range(unit)])
        self.early, self.left = self._split(cutting)
        self.together = cutting.chunks == 0 and cutting.early in (None, 0)

    def rows(self, ready: int, need: int) -> Ids:
        """Rows of one class, ascending."""
        at = ready * self.needs + need
        return self._ids[self._starts[at] : self._starts[at + 1]]

    def ready_at(self, ready: int) -> Ids:
        """Rows of all needs, in link order."""
        return self._ids[self._starts[ready * self.needs] : self._starts[(ready + 1) * self.needs]]

    def _split(self, cutting: Cutting) -> tuple[list[list[Ids]], list[Ids]]:
        """Rows that leave early, by ready and need, as far as they fit; by need, those left for the end."""
        room = cutting.early
        if room == 0:  # every row is ready last
            return [], [self.rows(self.unit - 1, need) for need in range(self.needs)]
        early: list[list[Ids]] = []
        left: list[list[Ids]] = [[] for _ in range(self.needs)]
        for ready in range(self.unit - 1):
            early.append([])
            for need in range(self.needs):
                mine = self.rows(ready, need)
                stays = cutting.chunks > 0 and need == self.unit
                if room is None and not stays:  # all of them
                    early[ready].append(mine)
                    continue
                fits = 0 if stays else len(mine) if room is None else min(room, len(mine))
                room = None if room is None else room - fits
                early[ready].append(mine[:fits])
                left[need].append(mine[fits:])
        for need in range(self.needs):
            left[need].append(self.rows(self.unit - 1, need))
        return early, [_joined(parts) for parts in left]


def _joined(parts: list[Ids]) -> Ids:
    """Concatenation that copies only where there is more than one part."""
    filled = [part for part in parts if len(part)]
    return filled[0] if len(filled) == 1 else np.concatenate(filled) if filled else parts[0]


@cache
def _labels(unit: int, early: bool) -> NDArray[np.uint8] | NDArray[np.uint16]:
    """Class of a row by (last, need), [256, 256]; without `early` every row is ready last."""
    needs, byte = unit + 3, np.arange(256)
    ready = np.minimum(byte, unit - 1) if early else np.full(256, unit - 1)
    place = np.minimum(byte, unit + 1)
    place[DELAYED] = unit
    table = ready[:, None] * needs + place
    table[NONE] = (0 if early else (unit - 1) * needs) + unit + 2
    if unit * needs > 256:  # units of 15 views and more
        return table.astype(np.uint16)
    return table.astype(np.uint8)


@njit(**_KERNEL)
def sort_rows(last: NDArray, need: NDArray, table: NDArray, classes: int) -> tuple[NDArray, NDArray]:
    """Stable counting sort of row ids by class, table[last, need]: ids int32 [N] ordered by class, then id, and starts
    int64 [classes + 1], so that rows of class c are ids[starts[c] : starts[c + 1]].

    last, need: uint8 [N]; table: unsigned [256, 256], all below `classes`
    """
    # Neighbours are mostly of one class, and a counter cannot go up twice at once: two halves of the rows take turns,
    # each with counters of its own.
    rows, half = np.uint64(last.shape[0]), np.uint64(last.shape[0] // 2)
    label, ids = np.empty(rows, table.dtype), np.empty(rows, np.int32)
    starts, upper = np.zeros(classes + 1, np.int64), np.zeros(classes, np.int64)
    for row in range(half):
        other = row + half
        label[row], label[other] = table[last[row], need[row]], table[last[other], need[other]]
        starts[label[row]] += 1
        upper[label[other]] += 1
    for row in range(np.uint64(2) * half, rows):  # the last of an odd number
        label[row] = table[last[row], need[row]]
        upper[label[row]] += 1
    before = 0
    for k in range(classes):
        lower, starts[k] = starts[k], before
        before, upper[k] = before + lower + upper[k], before + lower
    starts[classes] = before
    place = starts.copy()
    for row in range(half):
        at, above = place[label[row]], upper[label[row + half]]
        ids[at], ids[above] = row, row + half
        place[label[row]], upper[label[row + half]] = at + 1, above + 1
    for row in range(np.uint64(2) * half, rows):
        ids[upper[label[row]]] = row
    return ids, starts


def _early(rows: _Sorted, cutting: Cutting) -> list[SegmentSpec]:
    """One segment per view but the last."""
    segments = []
    for ready, by_need in enumerate(rows.early):
        parts: list[Part] = []
        for need, mine in enumerate(by_need):
            parts += _parts(mine, need, cutting)
        taken = [rows.ready_at(ready)] if rows.together else by_need
        blocks = _blocks(taken, cutting.everything)
        segments.append(SegmentSpec(name="early", blocks=blocks, launch=view_done(ready), parts=tuple(parts)))
    return segments


def _blocks(taken: Sequence[Ids], groups: tuple[int, ...]) -> tuple[Block, ...]:
    return tuple([Block(rows=mine, groups=groups) for mine in taken if len(mine)])


def _late(rows: _Sorted, cutting: Cutting) -> list[SegmentSpec]:
    """Leading colours, urgent geometry, urgent colours, chunks of delayed rows, the rest."""
    left = rows.left
    if not cutting.split:
        waited = (*range(cutting.reads), *cutting.visible)
        urgent = [
            SegmentSpec(
                name=_numbered("urgent", j, rows.unit),
                blocks=(Block(rows=left[j], groups=waited),),
                parts=tuple(_awaited(left[j], j, cutting)),
            )
            for j in range(rows.unit)
            if len(left[j])
        ]
        led = [mine[:0] for mine in left]
        return [*urgent, *_chunks(left[rows.unit], cutting), _rest(left, led, rows, cutting)]
    led, lead = _lead(left, rows, cutting)
    return [
        lead,
        *(_urgent_geometry(j, left[j], led[j], rows, cutting) for j in range(rows.unit) if len(left[j])),
        *(
            _urgent_colours(j, left[j][len(led[j]) :], rows, cutting)
            for j in range(rows.unit)
            if len(left[j]) > len(led[j])
        ),
        *_chunks(left[rows.unit], cutting),
        _rest(left, led, rows, cutting),
    ]


def _lead(left: Sequence[Ids], rows: _Sorted, cutting: Cutting) -> tuple[list[Ids], SegmentSpec]:
    """Colours that leave during the last projection backward: those of the rows needed first, up to the budget."""
    led, room = [], cutting.lead
    for need, mine in enumerate(left):
        chunked = cutting.chunks > 0 and need == rows.unit
        taken = mine[:0] if chunked else mine if room is None else mine[:room]
        room = None if room is None else room - len(taken)
        led.append(taken)
    groups = (*range(1, cutting.groups), *cutting.visible)
    # Rows go to the lead in link order, so that those of all needs are the first of them.
    together = [rows.ready_at(rows.unit - 1)[: sum(map(len, led))]]
    blocks = _blocks(together if rows.together else led, groups)
    filled = [j for j in range(rows.unit) if len(led[j])]
    parts = [Part(due=colour(j), rows=led[j], lo=1, hi=cutting.reads) for j in filled]
    parts += [part for j in filled for part in _held(led[j], cutting)]
    return led, SegmentSpec(name="colours", blocks=blocks, launch=COLOURS, parts=tuple(parts))


def _urgent_geometry(position: int, mine: Ids, led: Ids, rows: _Sorted, cutting: Cutting) -> SegmentSpec:
    blocks = ((led, (0,)), (mine[len(led) :], (0, *cutting.visible)))
    return SegmentSpec(
        name=_numbered("urgent geometry", position, rows.unit),
        blocks=tuple(Block(rows=ids, groups=groups) for ids, groups in blocks if len(ids)),
        parts=(Part(due=geometry(position), rows=mine, lo=0, hi=1),),
    )


def _urgent_colours(position: int, mine: Ids, rows: _Sorted, cutting: Cutting) -> SegmentSpec:
    return SegmentSpec(
        name=_numbered("urgent colours", position, rows.unit),
        blocks=(Block(rows=mine, groups=tuple(range(1, cutting.reads))),),
        parts=(Part(due=colour(position), rows=mine, lo=1, hi=cutting.reads),),
    )


def _chunks(delayed: Ids, cutting: Cutting) -> list[SegmentSpec]:
    """Delayed rows in pieces of equal size; how far a rank waits for them is its own decision (D§6 gate)."""
    if not cutting.chunks:
        return []
    pieces = np.array_split(cutting.rank_of(delayed), cutting.chunks)
    return [
        SegmentSpec(
            name=f"{CHUNK} {k + 1}",
            blocks=(Block(rows=piece, groups=cutting.everything),),
            parts=(Part(due=CLOSE, rows=piece, lo=0, hi=cutting.groups, corrects=cutting.corrects),),
        )
        for k, piece in enumerate(pieces)
        if len(piece)
    ]


def _rest(left: Sequence[Ids], led: Sequence[Ids], rows: _Sorted, cutting: Cutting) -> SegmentSpec:
    blocks, parts = [], []
    for need in range(rows.unit if cutting.held else 0):
        behind = left[need][len(led[need]) :]
        blocks.append(Block(rows=behind, groups=cutting.held))
        parts += _held(behind, cutting)
    first = rows.unit + (1 if cutting.chunks else 0)
    for need in range(first, rows.needs):
        behind = left[need][len(led[need]) :]
        for ids, groups in ((led[need], (0,)), (behind, cutting.everything)):
            if len(ids):
                blocks.append(Block(rows=ids, groups=groups))
        parts += _parts(left[need], need, cutting)
    return SegmentSpec(name="rest", blocks=tuple(blocks), parts=tuple(parts))


def _parts(mine: Ids, need: int, cutting: Cutting) -> list[Part]:
    """What rows of a need publish, and when. Rows outside W⁺(A) have nothing to publish."""
    if need == cutting.unit + 2 or not len(mine):
        return []
    if need >= cutting.unit:
        corrects = cutting.corrects and need == cutting.unit
        return [Part(due=CLOSE, rows=mine, lo=0, hi=cutting.groups, corrects=corrects)]
    return _awaited(mine, need, cutting) + _held(mine, cutting)


def _awaited(mine: Ids, need: int, cutting: Cutting) -> list[Part]:
    """What the first reader of rows waits for."""
    if not cutting.split:
        return [Part(due=geometry(need), rows=mine, lo=0, hi=cutting.reads)]
    return [
        Part(due=geometry(need), rows=mine, lo=0, hi=1),
        Part(due=colour(need), rows=mine, lo=1, hi=cutting.reads),
    ]


def _held(mine: Ids, cutting: Cutting) -> list[Part]:
    """What of rows that have a reader is held back from it."""
    return [Part(due=CLOSE, rows=mine, lo=cutting.reads, hi=cutting.groups)] if cutting.held else []


def _numbered(name: str, position: int, unit: int) -> str:
    return name if unit == 1 else f"{name} {position + 1}"
