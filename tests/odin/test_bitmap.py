"""Packed sets hold what masks hold, also where N is not a multiple of 64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.bitmap import count, full, pack, popcount, row_ids, summary, union, unpack, words

SIZES = st.one_of(st.sampled_from([0, 1, 63, 64, 65, 127, 128, 129, 191, 192, 193, 1000]), st.integers(0, 700))


@settings(max_examples=150, deadline=None)
@given(
    rows=SIZES,
    front=st.sampled_from([(), (1,), (3,), (2, 3)]),
    share=st.sampled_from([0.0, 0.03, 0.5, 0.97, 1.0]),
    seed=st.integers(0, 10_000),
)
def test_sets_are_masks(rows: int, front: tuple[int, ...], share: float, seed: int) -> None:
    mask = np.random.default_rng(seed).random((*front, rows)) < share
    bits = pack(mask)
    assert bits.dtype == np.uint64 and bits.shape == (*front, words(rows))
    back = unpack(bits, rows)
    assert back.dtype == np.bool_ and np.array_equal(back, mask)
    assert count(bits) == mask.sum()  # also: nothing is set past the end
    views = int(np.prod(front))
    flat, members = bits.reshape(views, words(rows)), mask.reshape(views, rows)
    for k in range(views):
        ids = row_ids(flat[k], rows)
        assert ids.dtype == np.int32 and np.array_equal(ids, np.flatnonzero(members[k]))
    assert np.array_equal(unpack(union(flat), rows), members.any(axis=0))
    together, sizes, size = summary(flat)
    assert np.array_equal(together, union(flat)) and size == count(together)
    assert sizes.dtype == np.int64 and np.array_equal(sizes, members.sum(axis=1))


@given(rows=SIZES)
def test_the_full_set_has_every_row_and_no_other_bit(rows: int) -> None:
    assert np.array_equal(full(rows), pack(np.ones(rows, np.bool_)))
    assert np.array_equal(row_ids(full(rows), rows), np.arange(rows))


def test_bit_p_of_word_q_is_row_64_q_plus_p() -> None:
    for row in (0, 1, 7, 8, 63, 64, 100, 129):
        mask = np.zeros(130, np.bool_)
        mask[row] = True
        bits = pack(mask)
        assert [int(word) for word in bits] == [1 << row % 64 if k == row // 64 else 0 for k in range(3)]


@given(word=st.integers(0, 2**64 - 1))
def test_popcount(word: int) -> None:
    assert popcount(np.uint64(word)) == bin(word).count("1")


def test_bitmaps_need_not_be_contiguous_or_writeable() -> None:
    mask = np.random.default_rng(0).random((4, 200)) < 0.5
    bits = pack(mask)
    bits.flags.writeable = False
    assert np.array_equal(unpack(bits[::2], 200), mask[::2])
    assert count(bits[:, ::2]) == mask[:, :64].sum() + mask[:, 128:192].sum()
    assert np.array_equal(row_ids(bits[1], 200), np.flatnonzero(mask[1]))


def test_no_sets_have_an_empty_union() -> None:
    assert np.array_equal(union(np.empty((0, 3), np.uint64)), np.zeros(3, np.uint64))


@pytest.mark.parametrize("rows", [64, 129, 0])
def test_a_bitmap_of_another_table_is_refused(rows: int) -> None:
    bits = full(100)
    with pytest.raises(ValueError, match="words"):
        unpack(bits, rows)
    with pytest.raises(ValueError, match="words"):
        row_ids(bits, rows)
