"""The fused hazard pass equals the paper's set formulas, and labels equal a search view by view."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.bitmap import full, pack, words
from odin.hazards import NONE, Hazards, classify, classify_reference
from tests.odin.test_bitmap import SIZES


def scopes(rng: np.random.Generator, views: int, rows: int) -> np.ndarray:
    """Random sets of very different sizes, uint64 [views, words(rows)]."""
    shares = rng.choice([0.0, 0.02, 0.3, 0.9, 1.0], size=(views, 1))
    return pack(rng.random((views, rows)) < shares)


def assert_equal(got: tuple, expected: tuple, rows: int) -> None:
    for a, b in zip(got[:2], expected[:2], strict=True):
        assert a.dtype == np.uint8 and a.shape == (rows,) and np.array_equal(a, b)
    assert got[2] == expected[2]


@settings(max_examples=150, deadline=None)
@given(
    rows=SIZES,
    unit=st.integers(1, 4),
    ranks=st.integers(1, 3),
    same=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_one_pass_is_the_formulas(rows: int, unit: int, ranks: int, same: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    write_a, read_a, write_b, read_b = (scopes(rng, ranks * unit, rows) for _ in range(4))
    if same:
        read_a, read_b = write_a, write_b
    args = (write_a, read_a, write_b, read_b)
    got = classify(*args, ranks=ranks, unit=unit, rows=rows)
    assert_equal(got, classify_reference(*args, ranks=ranks, unit=unit, rows=rows), rows)


@pytest.mark.parametrize("unit", [5, 8, 9, 17, 128, 129, 254, 255])
def test_long_units(unit: int) -> None:
    rng = np.random.default_rng(unit)
    args = [pack(rng.random((unit, 300)) < 3.0 / unit) for _ in range(4)]
    got = classify(*args, ranks=1, unit=unit, rows=300)
    assert_equal(got, classify_reference(*args, ranks=1, unit=unit, rows=300), 300)
    assert {int(got[0].max()), int(got[1].max())} == {NONE}


def test_a_table_of_many_pieces() -> None:
    rng, rows = np.random.default_rng(0), 64 * 600 + 5
    args = [scopes(rng, 6, rows) for _ in range(4)]
    got = classify(*args, ranks=2, unit=3, rows=rows)
    assert_equal(got, classify_reference(*args, ranks=2, unit=3, rows=rows), rows)


def test_an_example_by_hand() -> None:
    """Two ranks of two views; rows 0…7. A writes 0-3 and reads 0-4, B writes 3-5 and reads 2-6."""

    def of(*sets: list[int]) -> np.ndarray:
        mask = np.zeros((4, 8), np.bool_)
        for view, rows in enumerate(sets):
            mask[view, rows] = True
        return pack(mask)

    # Views in unit order: rank 0 first, rank 0 second, rank 1 first, rank 1 second.
    write_a, read_a = of([0, 1], [1], [2], [3]), of([0, 1, 4], [1], [2], [3])
    write_b, read_b = of([3], [4], [5], []), of([3], [4, 2], [5, 6], [2])
    last, first, hazards = classify(write_a, read_a, write_b, read_b, ranks=2, unit=2, rows=8)
    assert last.tolist() == [0, 1, 0, 1, NONE, NONE, NONE, NONE]
    assert first.tolist() == [NONE, NONE, 1, 0, 1, 0, 0, NONE]
    assert hazards == Hazards(raw=1, waw=1, war=1)  # rows 2, 3 and 4


def test_everything_conflicts() -> None:
    every = np.tile(full(100), (6, 1))
    last, first, hazards = classify(every, every, every, every, ranks=2, unit=3, rows=100)
    assert (last == 2).all() and (first == 0).all()
    assert hazards == Hazards(raw=0, waw=100, war=0)


def test_misfits_are_errors() -> None:
    bits, other = np.zeros((6, words(100)), np.uint64), np.zeros((5, words(100)), np.uint64)
    with pytest.raises(ValueError, match="shapes"):
        classify(bits, bits, other, bits, ranks=2, unit=3, rows=100)
    with pytest.raises(ValueError, match="shapes"):
        classify(bits, bits, bits, bits, ranks=2, unit=2, rows=100)
    with pytest.raises(ValueError, match="shapes"):
        classify(bits, bits, bits, bits, ranks=2, unit=3, rows=129)
    many = np.zeros((256, 1), np.uint64)
    with pytest.raises(ValueError, match="256 views"):
        classify(many, many, many, many, ranks=1, unit=256, rows=10)
