"""Sets of rows as packed words (D§6 Scopes): bit p % 64 of word p // 64 is row p, bits past row N-1 are 0.

Legend: N rows, K = ⌈N / 64⌉ words, B views.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from odin.dense import dense

WORD = 64

_U = np.uint64
_ODD = np.uint64(0x5555555555555555)
_PAIRS = np.uint64(0x3333333333333333)
_NIBBLES = np.uint64(0x0F0F0F0F0F0F0F0F)
_BYTES = np.uint64(0x0101010101010101)


def words(rows: int) -> int:
    """K, the number of words that hold `rows` rows."""
    return -(-rows // WORD)


def pack(mask: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """bool [..., N] as bits, uint64 [..., K]."""
    *front, rows = mask.shape
    # Bytes first: bit order and byte order agree on a little-endian machine, and there are no others here.
    octets = np.zeros((*front, words(rows) * 8), np.uint8)
    octets[..., : -(-rows // 8)] = np.packbits(mask, axis=-1, bitorder="little")
    return octets.view(np.uint64)


def unpack(bits: NDArray[np.uint64], rows: int) -> NDArray[np.bool_]:
    """uint64 [..., K] as a mask, bool [..., N]. Raises ValueError if K does not fit."""
    _require_fit(bits, rows)
    octets = np.ascontiguousarray(bits).view(np.uint8)
    return np.unpackbits(octets, axis=-1, count=rows, bitorder="little").view(np.bool_)


def row_ids(bits: NDArray[np.uint64], rows: int) -> NDArray[np.int32]:
    """Ids of the rows of a set (uint64 [K]), int32, ascending. Raises ValueError if K does not fit."""
    _require_fit(bits, rows)
    return _row_ids(dense(bits, np.uint64))


def union(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Union of the sets uint64 [B, K], uint64 [K]; no sets have an empty one."""
    return np.bitwise_or.reduce(bits, axis=0)


def count(bits: NDArray[np.uint64]) -> int:
    """Set bits of an array of any shape: the sizes of all its sets together."""
    return int(_count(dense(bits, np.uint64).reshape(-1)))


def summary(bits: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int64], int]:
    """Of sets uint64 [B, K], in one pass: their union uint64 [K], the size of each int64 [B], the size of the union."""
    together, sizes, total = _summary(dense(bits, np.uint64))
    return together, sizes, int(total)


def full(rows: int) -> NDArray[np.uint64]:
    """The set of all rows, uint64 [K]."""
    bits = np.full(words(rows), ~_U(0))
    if rows % WORD:
        bits[-1] >>= _U(WORD - rows % WORD)
    return bits


@njit(nogil=True, cache=True)
def popcount(word: np.uint64) -> np.uint64:
    """Set bits of a uint64: sums of 2, 4 and 8 bits side by side, then of all bytes in the highest one."""
    word = word - ((word >> _U(1)) & _ODD)
    word = (word & _PAIRS) + ((word >> _U(2)) & _PAIRS)
    word = (word + (word >> _U(4))) & _NIBBLES
    return (word * _BYTES) >> _U(56)


def _require_fit(bits: NDArray[np.uint64], rows: int) -> None:
    if bits.shape[-1] != words(rows):
        raise ValueError(f"bitmap has {bits.shape[-1]} words, {rows} rows need {words(rows)}")


@njit(nogil=True, cache=True)
def _count(bits: NDArray) -> np.uint64:
    total = _U(0)
    for k in range(_U(bits.shape[0])):
        total += popcount(bits[k])
    return total


@njit(nogil=True, cache=True)
def _summary(bits: NDArray) -> tuple[NDArray, NDArray, np.uint64]:
    together, sizes = np.zeros(bits.shape[1], np.uint64), np.empty(bits.shape[0], np.int64)
    for b in range(_U(bits.shape[0])):
        total = _U(0)
        for k in range(_U(bits.shape[1])):
            together[k] |= bits[b, k]
            total += popcount(bits[b, k])
        sizes[b] = total
    return together, sizes, _count(together)


@njit(nogil=True, cache=True)
def _row_ids(bits: NDArray) -> NDArray:
    # Every bit of a word is written and only set ones advance: sets of near rows have full words, and a branch per
    # bit would be slower. One place more than there are rows, for the bits after the last set one.
    total = np.int64(_count(bits))
    ids = np.empty(total + 1, np.int32)
    n = _U(0)
    for k in range(bits.shape[0]):
        word = bits[k]
        if word != _U(0):
            for p in range(WORD):
                ids[n] = WORD * k + p
                n += (word >> _U(p)) & _U(1)
    return ids[:total]
