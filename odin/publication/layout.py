"""The cut of a step into segments from what its rows are needed for: a pure function of replicated data.

A row of step A is `ready` after the last view of A that may touch it, and has a `need`: the first view of B that may
read it, or one of the three below. Link order: rows that are ready early, colours that fit into the last projection
backward, urgent geometry, urgent colours, the rest (D§6 Segments).

Legend: N rows, U views per unit, G column groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odin.hazards import NONE, group_rows
from odin.points import CLOSE, COLOURS, Point, colour, geometry, view_done
from odin.segments import Block, Part, SegmentSpec

Ids = NDArray[np.int32]

DELAYED = 254  # B may read the row, but does not wait for it
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
    groups:       number of column groups; 1 column group is published as one
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


@dataclass(frozen=True)
class Cut:
    """The segments of a step in link order, and the rows outside W⁺(A), which take a zero-gradient step at p0."""

    segments: tuple[SegmentSpec, ...]
    outside: Ids
    delayed: Ids


def lay_out(classes: Classes, cutting: Cutting) -> Cut:
    """Cut a step into segments."""
    sorted_rows = _Sorted(classes, cutting)
    segments = [*_early(sorted_rows, cutting), *_late(sorted_rows, cutting)]
    return Cut(
        segments=tuple(s for s in segments if any(len(b.rows) for b in s.blocks)),
        outside=sorted_rows.outside,
        delayed=sorted_rows.delayed,
    )


class _Sorted:
    """Rows by (ready, need). Needs are in link order: positions 0…U-1, delayed, rest, outside W⁺."""

    def __init__(self, classes: Classes, cutting: Cutting) -> None:
        unit = cutting.unit
        self.unit, self.needs = unit, unit + 3
        outside = classes.last == NONE
        need = np.minimum(classes.need, unit + 1)
        need[classes.need == DELAYED] = unit
        need[outside] = unit + 2
        ready = np.where(outside, 0, classes.last) if cutting.early != 0 else np.full(len(need), unit - 1, np.uint8)
        self._ids, self._starts = _grouped(ready.astype(np.uint8), need, unit, self.needs)
        self._early = self._fitting(cutting)
        self.outside = self.with_need(unit + 2)
        self.delayed = self.with_need(unit)

    def rows(self, ready: int, need: int) -> Ids:
        at = ready * self.needs + need
        return self._ids[self._starts[at] : self._starts[at + 1]]

    def with_need(self, need: int) -> Ids:
        return np.concatenate([self.rows(ready, need) for ready in range(self.unit)])

    def leaving_early(self, ready: int, need: int) -> Ids:
        return self.rows(ready, need)[: self._early[ready, need]]

    def staying(self, ready: int, need: int) -> Ids:
        return self.rows(ready, need)[self._early[ready, need] :]

    def _fitting(self, cutting: Cutting) -> NDArray[np.int64]:
        """How many rows of each class leave early, int64 [U, needs]: in order, until the budget is used up."""
        size = np.diff(self._starts).reshape(self.unit, self.needs)
        size[-1] = 0  # the last view's rows are never early
        if cutting.chunks:
            size[:, self.unit] = 0
        if cutting.early is None:
            return size
        before = np.cumsum(size).reshape(size.shape) - size
        return np.clip(cutting.early - before, 0, size)


def _grouped(ready: NDArray[np.uint8], need: NDArray[np.uint8], unit: int, needs: int) -> tuple[Ids, NDArray[np.int64]]:
    """Rows by (ready, need), then id, and where each class begins."""
    classes = unit * needs
    if classes <= 256:
        return group_rows((ready * np.uint8(needs) + need).astype(np.uint8), classes)
    label = ready.astype(np.uint16) * np.uint16(needs) + need  # units of 15 views and more: a byte would wrap around
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(label, minlength=classes))])
    return np.argsort(label, kind="stable").astype(np.int32), starts


def _early(rows: _Sorted, cutting: Cutting) -> list[SegmentSpec]:
    """One segment per view but the last. What does not fit stays for `_late`."""
    segments = []
    for ready in range(rows.unit - 1):
        blocks, parts = [], []
        for need in range(rows.needs):
            taken = rows.leaving_early(ready, need)
            blocks.append(Block(rows=taken, groups=(*range(cutting.groups), *cutting.visible)))
            parts += _parts(taken, need, cutting)
        spec = SegmentSpec(name="early", blocks=tuple(blocks), launch=view_done(ready), parts=tuple(parts))
        segments.append(spec)
    return segments


def _late(rows: _Sorted, cutting: Cutting) -> list[SegmentSpec]:
    """Leading colours, urgent geometry, urgent colours, chunks of delayed rows, the rest."""
    left = [np.concatenate([rows.staying(ready, need) for ready in range(rows.unit)]) for need in range(rows.needs)]
    if not cutting.split:
        everything = (*range(cutting.groups), *cutting.visible)
        urgent = [
            SegmentSpec(
                name=_numbered("urgent", j, rows.unit),
                blocks=(Block(rows=left[j], groups=everything),),
                parts=tuple(_parts(left[j], j, cutting)),
            )
            for j in range(rows.unit)
        ]
        led = [mine[:0] for mine in left]
        return [*urgent, *_chunks(left[rows.unit], cutting), _rest(left, led, rows, cutting)]
    led, lead = _lead(left, rows, cutting)
    return [
        lead,
        *(_urgent_geometry(j, left[j], led[j], rows, cutting) for j in range(rows.unit)),
        *(_urgent_colours(j, left[j][len(led[j]) :], rows) for j in range(rows.unit)),
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
    blocks = tuple(Block(rows=taken, groups=(1, *cutting.visible)) for taken in led)
    parts = tuple(Part(due=colour(j), rows=led[j], lo=1, hi=2) for j in range(rows.unit))
    return led, SegmentSpec(name="colours", blocks=blocks, launch=COLOURS, parts=parts)


def _urgent_geometry(position: int, mine: Ids, led: Ids, rows: _Sorted, cutting: Cutting) -> SegmentSpec:
    return SegmentSpec(
        name=_numbered("urgent geometry", position, rows.unit),
        blocks=(Block(rows=led, groups=(0,)), Block(rows=mine[len(led) :], groups=(0, *cutting.visible))),
        parts=(Part(due=geometry(position), rows=mine, lo=0, hi=1),),
    )


def _urgent_colours(position: int, mine: Ids, rows: _Sorted) -> SegmentSpec:
    return SegmentSpec(
        name=_numbered("urgent colours", position, rows.unit),
        blocks=(Block(rows=mine, groups=(1,)),),
        parts=(Part(due=colour(position), rows=mine, lo=1, hi=2),),
    )


def _chunks(delayed: Ids, cutting: Cutting) -> list[SegmentSpec]:
    """Delayed rows in pieces of equal size; how far a rank waits for them is its own decision (D§6 gate)."""
    if not cutting.chunks:
        return []
    everything = (*range(cutting.groups), *cutting.visible)
    pieces = np.array_split(cutting.rank_of(delayed), cutting.chunks)
    return [
        SegmentSpec(
            name=f"chunk {k + 1}",
            blocks=(Block(rows=piece, groups=everything),),
            parts=(Part(due=CLOSE, rows=piece, lo=0, hi=cutting.groups, corrects=cutting.corrects),),
        )
        for k, piece in enumerate(pieces)
        if len(piece)
    ]


def _rest(left: Sequence[Ids], led: Sequence[Ids], rows: _Sorted, cutting: Cutting) -> SegmentSpec:
    blocks, parts = [], []
    first = rows.unit + (1 if cutting.chunks else 0)
    for need in range(first, rows.needs):
        behind = left[need][len(led[need]) :]
        blocks.append(Block(rows=led[need], groups=(0,)))
        blocks.append(Block(rows=behind, groups=(*range(cutting.groups), *cutting.visible)))
        parts += _parts(left[need], need, cutting)
    return SegmentSpec(name="rest", blocks=tuple(blocks), parts=tuple(parts))


def _parts(mine: Ids, need: int, cutting: Cutting) -> list[Part]:
    """What rows of a need publish, and when. Rows outside W⁺(A) have nothing to publish."""
    if need == cutting.unit + 2:
        return []
    if need >= cutting.unit:
        corrects = cutting.corrects and need == cutting.unit
        return [Part(due=CLOSE, rows=mine, lo=0, hi=cutting.groups, corrects=corrects)]
    if not cutting.split:
        return [Part(due=geometry(need), rows=mine, lo=0, hi=cutting.groups)]
    return [
        Part(due=geometry(need), rows=mine, lo=0, hi=1),
        Part(due=colour(need), rows=mine, lo=1, hi=cutting.groups),
    ]


def _numbered(name: str, position: int, unit: int) -> str:
    return name if unit == 1 else f"{name} {position + 1}"


def due_points(unit: int) -> list[Point]:
    """Points of a step at which something may be published, in order."""
    return [*(geometry(j) for j in range(unit)), *(colour(j) for j in range(unit)), CLOSE]
