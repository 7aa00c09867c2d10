"""Hazards between two consecutive steps A → B and the order in which rows are needed (§4.3, D§6 Scopes).

Legend: N rows, K words of a bitmap (odin/bitmap.py), B = ranks · unit views of a step in unit order: view
rank · unit + position.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from odin.bitmap import WORD, count, popcount, union, unpack, words
from odin.dense import dense

NONE = 255
"""Label of a row that no view touches."""

_U = np.uint64
_ONES = np.uint64(0x0101010101010101)
_DIAGONAL = np.uint64(0x8040201008040201)
_CARRY = np.uint64(0x7F7F7F7F7F7F7F7F)
_KERNEL: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}


@dataclass(frozen=True, kw_only=True)
class Hazards:
    """Sizes of the three conflict sets of §4.3, in rows, over the unions of all views of A and of B.

    raw: (R(B) ∖ W(B)) ∩ W(A)
    waw: W(B) ∩ W(A)
    war: W(B) ∩ (R(A) ∖ W(A))
    """

    raw: int
    waw: int
    war: int


def classify(
    write_a: NDArray[np.uint64],
    read_a: NDArray[np.uint64],
    write_b: NDArray[np.uint64],
    read_b: NDArray[np.uint64],
    *,
    ranks: int,
    unit: int,
    rows: int,
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], Hazards]:
    """The hazard pass, one look at every word of the four scopes, each uint64 [B, K].

    Returns
    last:  uint8 [N], the largest position at which any rank's view of A may write the row, NONE if none may
    first: uint8 [N], the smallest position at which any rank's view of B may read it, NONE if none may
    and the sizes of the conflict sets. Where write scopes are read scopes, pass the same array twice.
    Raises ValueError if shapes do not fit or positions do not fit below NONE.
    """
    expected = (ranks * unit, words(rows))
    if not write_a.shape == read_a.shape == write_b.shape == read_b.shape == expected:
        shapes = [scope.shape for scope in (write_a, read_a, write_b, read_b)]
        raise ValueError(f"scopes have shapes {shapes}, expected {expected}: {ranks}·{unit} views, {rows} rows")
    if not 1 <= unit <= NONE:
        raise ValueError(f"a unit has {unit} views, expected 1 to {NONE}")
    wa, rb = dense(write_a, np.uint64), dense(read_b, np.uint64)
    ra = wa if read_a is write_a else dense(read_a, np.uint64)
    wb = rb if write_b is read_b else dense(write_b, np.uint64)
    last, first, raw, waw, war = _classify(wa, ra, wb, rb, unit, rows)
    return last, first, Hazards(raw=int(raw), waw=int(waw), war=int(war))


def classify_reference(
    write_a: NDArray[np.uint64],
    read_a: NDArray[np.uint64],
    write_b: NDArray[np.uint64],
    read_b: NDArray[np.uint64],
    *,
    ranks: int,
    unit: int,
    rows: int,
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], Hazards]:
    """`classify` from masks, position by position and formula by formula."""
    last, first = np.full(rows, NONE, np.uint8), np.full(rows, NONE, np.uint8)
    for position in range(unit):
        views = [rank * unit + position for rank in range(ranks)]
        last[unpack(write_a[views], rows).any(axis=0)] = position
        first[unpack(read_b[views], rows).any(axis=0) & (first == NONE)] = position
    wa, ra, wb, rb = (union(scope) for scope in (write_a, read_a, write_b, read_b))
    return last, first, Hazards(raw=count(rb & ~wb & wa), waw=count(wb & wa), war=count(wb & ra & ~wa))


# Labels are kept as bit planes, one bit per row in each of a few words, while positions are entered, and written out
# eight rows at a time: no loop looks at a single row. Planes above those of the largest position are all equal (NONE
# has every bit set), so one stands for them: the complement of the union. A piece of the bitmaps is taken through all
# loops before the next, so that planes stay in the first-level cache and every loop runs over adjacent words.
# Explicit loops instead of slice assignments, and one call for both steps, compile in a third of the time.
_PIECE = 256


@njit(**_KERNEL)
def _classify(
    write_a: NDArray, read_a: NDArray, write_b: NDArray, read_b: NDArray, unit: int, rows: int
) -> tuple[NDArray, NDArray, np.int64, np.int64, np.int64]:
    """`classify`. Labels are written eight rows to a word; rows past the end are in no scope, and cut off."""
    last_labels, first_labels = np.empty(WORD * write_a.shape[1], np.uint8), np.empty(WORD * write_a.shape[1], np.uint8)
    last, first = last_labels.view(np.uint64), first_labels.view(np.uint64)
    raw, waw, war, bits = _U(0), _U(0), _U(0), 0
    while (unit - 1) >> bits:
        bits += 1
    planes, scratch = np.empty((2, bits + 1, _PIECE), np.uint64), np.empty(_PIECE, np.uint64)
    ra, wb = np.empty(_PIECE, np.uint64), np.empty(_PIECE, np.uint64)
    for at in range(0, write_a.shape[1], _PIECE):
        size = min(_PIECE, write_a.shape[1] - at)
        for b in range(2):
            _label(read_b if b else write_a, at, size, unit, b == 1, planes[b], scratch)
            _write(planes[b], size, first[8 * at :] if b else last[8 * at :])
        _union(read_a, 0, 1, at, size, ra)
        _union(write_b, 0, 1, at, size, wb)
        not_wa, not_rb = planes[0, bits], planes[1, bits]
        for k in range(_U(size)):
            raw += popcount(~(not_rb[k] | wb[k] | not_wa[k]))
            waw += popcount(wb[k] & ~not_wa[k])
            war += popcount(wb[k] & ra[k] & not_wa[k])
    return last_labels[:rows], first_labels[:rows], np.int64(raw), np.int64(waw), np.int64(war)


@njit(**_KERNEL)
def _union(scopes: NDArray, start: int, stride: int, at: int, size: int, out: NDArray) -> None:
    """Words at…at+size-1 of the union of every `stride`-th scope."""
    for k in range(_U(size)):
        out[k] = _U(0)
    for b in range(start, scopes.shape[0], stride):
        scope = scopes[b, at : at + size]
        for k in range(_U(size)):
            out[k] |= scope[k]


@njit(**_KERNEL)
def _label(scopes: NDArray, at: int, size: int, unit: int, descending: bool, planes: NDArray, word: NDArray) -> None:
    """Enter the positions of a unit into the planes of a piece, ascending or descending: the last one stays."""
    bits = planes.shape[0] - 1
    for b in range(bits + 1):
        plane = planes[b]
        for k in range(_U(size)):
            plane[k] = ~_U(0)
    for i in range(unit):
        position = unit - 1 - i if descending else i
        _union(scopes, position, unit, at, size, word)
        for b in range(bits + 1):
            plane, ones = planes[b], (position >> b) & 1  # above the position's bits it is 0
            if ones:
                for k in range(_U(size)):
                    plane[k] |= word[k]
            else:
                for k in range(_U(size)):
                    plane[k] &= ~word[k]


@njit(**_KERNEL)
def _write(planes: NDArray, size: int, labels: NDArray) -> None:
    """Labels of a piece from its planes."""
    bits = planes.shape[0] - 1
    plane, high = planes[bits], (_U(NONE) << _U(bits)) & _U(NONE)
    for k in range(_U(size)):
        for octet in range(_U(8)):
            labels[_U(8) * k + octet] = _spread(plane[k] >> (octet * _U(8))) * high
    for b in range(_U(bits)):
        plane = planes[b]
        for k in range(_U(size)):
            for octet in range(_U(8)):
                labels[_U(8) * k + octet] |= _spread(plane[k] >> (octet * _U(8))) << b


@njit(**_KERNEL)
def _spread(word: np.uint64) -> np.uint64:
    """The low eight bits as eight bytes of 0 or 1: eight copies, one bit of each, carried up and brought down.

    Copies are made in halves, because vector units multiply 32 bits.
    """
    half = (word & _U(255)) * _U(0x01010101)
    return (((half << _U(32) | half) & _DIAGONAL) + _CARRY) >> _U(7) & _ONES
