"""The random stream of epochs (D§4)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.errors import InputError
from odin.planner import epoch_order, random_units
from odin.planner.stream import crosses_epoch


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 30), st.integers(1, 40), st.integers(0, 9))
def test_every_epoch_is_a_permutation(ranks: int, unit: int, spare: int, steps: int, seed: int) -> None:
    count = ranks * unit + spare
    flat = random_units(count, ranks, unit, steps, seed).reshape(-1)
    assert len(flat) == steps * ranks * unit
    for start in range(0, len(flat), count):
        part = flat[start : start + count]
        assert len(np.unique(part)) == len(part)
    assert all(len(set(step)) == ranks * unit for step in flat.reshape(steps, ranks * unit).tolist())


def test_epochs_differ_and_seeds_differ() -> None:
    assert not np.array_equal(epoch_order(50, 0, 0), epoch_order(50, 0, 1))
    assert not np.array_equal(random_units(50, 2, 2, 20, 0), random_units(50, 2, 2, 20, 1))
    assert np.array_equal(random_units(50, 2, 2, 20, 3), random_units(50, 2, 2, 20, 3))


def test_only_clashes_move() -> None:
    """Away from the boundary steps the stream is the permutations themselves."""
    flat = random_units(13, 2, 2, 13, 0).reshape(-1)
    changed = [np.count_nonzero(flat[e * 13 :][:13] != epoch_order(13, 0, e)) for e in range(4)]
    assert changed[0] == 0
    assert all(number in (0, 2, 4, 6) for number in changed)


def test_a_longer_plan_begins_with_the_shorter_one() -> None:
    assert np.array_equal(random_units(13, 2, 2, 40, 0)[:10], random_units(13, 2, 2, 10, 0))


def test_crosses_epoch_names_steps_with_two_epochs() -> None:
    assert crosses_epoch(10, 4, 5).tolist() == [False, False, True, False, False]
    assert not crosses_epoch(4, 4, 5).any()


def test_more_views_per_step_than_there_are_is_refused() -> None:
    with pytest.raises(InputError, match=r"needs 8 different views .* 7 training views"):
        random_units(7, 4, 2, 3, 0)


@pytest.mark.parametrize(("ranks", "unit", "steps"), [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_counts_out_of_range_are_refused(ranks: int, unit: int, steps: int) -> None:
    with pytest.raises(InputError, match="all three start at 1"):
        random_units(7, ranks, unit, steps, 0)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(InputError, match="seed is -1"):
        epoch_order(5, -1, 0)
