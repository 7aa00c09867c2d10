"""Gradient norms against numpy, and the gate where there is little or nothing to go by."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.evidence import Gate, active_mean, hold_ratio
from odin.publication.layout import Cutting, lay_out
from odin.slot import GradientSlot
from tests.odin.test_layout import VISIBLE, random_classes
from tests.odin.test_rows import LAYOUT, filled_slot

NAN = float("nan")


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def ids(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


@settings(max_examples=50, deadline=None)
@given(rows=st.integers(1, 40), seed=st.integers(0, 1000), selective=st.booleans())
def test_norms_are_those_of_numpy_in_any_cut(rows: int, seed: int, selective: bool) -> None:
    rng = np.random.default_rng(seed)
    visible = (VISIBLE,) if selective else ()
    slot = GradientSlot(rows, LAYOUT.with_visible() if selective else LAYOUT)
    cutting = Cutting(unit=3, groups=2, split=bool(seed % 2), early=5, lead=7, visible=visible)
    slot.partition(lay_out(random_classes(rows, 3, seed), cutting).segments)
    gradient = (rng.normal(size=(rows, 59)) * 10.0 ** rng.uniform(-15, 15, (rows, 1))).astype(np.float32)
    gradient[rng.random(rows) < 0.2] = 0.0
    every = np.arange(rows, dtype=np.int32)
    slot.add(0, every, np.ascontiguousarray(gradient[:, :11]))
    slot.add(1, every, np.ascontiguousarray(gradient[:, 11:]))
    for group in visible:  # counts views, and is no gradient
        slot.add(group, every, np.ones((rows, 1), np.float32))
    some = rng.permutation(every)[: max(1, rows // 2)]
    expected = 0.125 * np.linalg.norm(gradient[some].astype(np.float64), axis=1)
    norms = slot.norms(some, LAYOUT, 0.125)
    assert norms.dtype == np.float32
    assert np.allclose(norms, expected, rtol=1e-6, atol=0.0)
    assert np.array_equal(norms == 0, ~gradient[some].any(axis=1))


def test_norms_of_large_gradients_do_not_overflow_on_the_way() -> None:
    slot = filled_slot(np.full((2, 59), 1e30, np.float32))
    assert slot.norms(ids(1), LAYOUT, 1.0) == pytest.approx(1e30 * np.sqrt(59), rel=1e-6)
    assert slot.norms(ids(), LAYOUT, 1.0).shape == (0,)


def test_a_gradient_that_is_not_a_number_is_no_evidence() -> None:
    gradient = np.ones((3, 59), np.float32)
    gradient[1, 40] = NAN
    norms = filled_slot(gradient).norms(ids(0, 1, 2), LAYOUT, 1.0)
    assert np.isnan(norms[1])
    assert active_mean(norms) == pytest.approx(np.sqrt(59))
    assert Gate(tau=1.0).passes(norms, 100.0).tolist() == [True, False, True]


def test_the_active_mean_is_over_rows_with_a_known_gradient() -> None:
    assert active_mean(floats(0.0, 1.0, NAN, 3.0)) == 2.0
    for nothing in (floats(), floats(0.0, 0.0), floats(NAN, 0.0)):
        assert np.isnan(active_mean(nothing))


def test_the_gate_is_inclusive() -> None:
    norms = floats(0.0, 0.1, 0.2, np.nextafter(np.float32(0.2), np.float32(1)), 5.0, NAN, np.inf)
    assert Gate(tau=0.2).passes(norms, 1.0).tolist() == [False, True, True, False, False, False, False]


@pytest.mark.parametrize("tau", [0.0, 0.5, 1.0])
def test_nothing_passes_without_an_active_set(tau: float) -> None:
    norms = floats(0.0, 1.0, NAN)
    assert not Gate(tau=tau).passes(norms, NAN).any()
    assert Gate(tau=tau).passes(floats(), 1.0).shape == (0,)


def test_tau_at_its_ends() -> None:
    norms = floats(1e-30, 1.0, 2.0, 3.0)
    mean = active_mean(norms)
    assert not Gate(tau=0.0).passes(norms, mean).any()
    assert Gate(tau=1.0).passes(norms, mean).tolist() == [True, True, False, False]
    assert Gate(tau=1.0).passes(floats(4.0, 4.0), active_mean(floats(4.0, 4.0))).all()


def test_the_ratio_is_held_by_taking_the_largest_out() -> None:
    candidates, norms = ids(2, 5, 7, 11), floats(3.0, 1.0, 4.0, 2.0)
    assert hold_ratio(candidates, norms, 4).tolist() == [2, 5, 7, 11]
    assert hold_ratio(candidates, norms, 9).tolist() == [2, 5, 7, 11]
    assert hold_ratio(candidates, norms, 3).tolist() == [2, 5, 11]
    assert hold_ratio(candidates, norms, 1).tolist() == [5]
    assert hold_ratio(candidates, norms, 0).tolist() == []
    assert hold_ratio(ids(), floats(), 0).tolist() == []


def test_ties_go_to_the_smaller_id_and_unknown_norms_go_first() -> None:
    assert hold_ratio(ids(1, 4, 6, 9), floats(2.0, 1.0, 2.0, 1.0), 3).tolist() == [1, 4, 9]
    assert hold_ratio(ids(1, 4, 6), floats(2.0, 2.0, 2.0), 2).tolist() == [1, 4]
    assert hold_ratio(ids(1, 4, 6), floats(np.inf, 2.0, np.inf), 2).tolist() == [1, 4]
    assert hold_ratio(ids(1, 4, 6), floats(NAN, 7.0, 8.0), 2).tolist() == [4, 6]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from([0.5, 1.0, 2.0, float("inf")]), max_size=12), st.integers(0, 14))
def test_the_ratio_against_a_plain_sort(values: list[float], most: int) -> None:
    rows = np.flatnonzero(np.arange(len(values) * 2) % 2).astype(np.int32)
    plain = sorted(zip(values, rows.tolist(), strict=True))[:most]
    assert hold_ratio(rows, floats(*values), most).tolist() == sorted(row for _, row in plain)
