"""Typical times, the noise floor and means of ratios against values worked out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.measure.statistics import mean_ratio, noise_floor, typical_time
from odin.errors import InputError


def test_typical_times_say_how_they_came() -> None:
    assert typical_time([2.0]).model_dump() == {"seconds": 2.0, "how": "one run"}
    assert typical_time([2.0, 3.0]).model_dump() == {"seconds": 2.5, "how": "mean of the mirrored pair"}
    assert typical_time([9.0, 1.0, 2.0]).model_dump() == {"seconds": 2.0, "how": "median of 3 repeats"}


def test_linear_drift_cancels_in_a_mirrored_pair() -> None:
    drift = [1 + 0.01 * k for k in range(4)]  # order a, b, b, a with times 3 and 2
    a, b = typical_time([3 + drift[0], 3 + drift[3]]), typical_time([2 + drift[1], 2 + drift[2]])
    assert a.seconds - b.seconds == pytest.approx(1.0, abs=1e-12)


def test_the_noise_floor_is_the_largest_spread() -> None:
    found = noise_floor({"barrier": [1.0, 1.02, 0.99], "quality": [2.0, 2.0], "predicted": [1.0]})
    assert found.by_arm["barrier"].value == pytest.approx(1.02 / 0.99 - 1)
    assert found.by_arm["quality"].value == 0.0
    assert found.by_arm["predicted"].reason == "n/a: one run"
    assert found.overall == found.by_arm["barrier"]
    assert noise_floor({"predicted": [1.0]}).overall.reason == "n/a: no arm ran twice"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=6))
def test_the_spread_is_the_largest_of_all_quotients(times: list[float]) -> None:
    every = max(abs(a / b - 1) for a in times for b in times)
    assert noise_floor({"a": times}).overall.value == pytest.approx(every)


def test_the_mean_of_ratios() -> None:
    found = mean_ratio([1.0, 4.0])
    assert (found.n, found.geometric, found.arithmetic) == (2, pytest.approx(2.0), 2.5)
    # sd of (0, ln 4) is ln 4/√2, so the half width is t(0.975, 1) · ln 4/2 with t = 12.7062.
    assert found.high.value == pytest.approx(2 * math.exp(12.7062 * math.log(4) / 2), rel=1e-3)
    assert found.low.value == pytest.approx(2 * math.exp(-12.7062 * math.log(4) / 2), rel=1e-3)
    assert mean_ratio([1.3]).low.reason == "n/a: an interval needs two pairs"


@pytest.mark.parametrize("values", [[], [0.0], [-1.0], [1.0, math.nan], [math.inf]])
def test_what_is_no_time_is_refused(values: list[float]) -> None:
    for function in (typical_time, mean_ratio, lambda v: noise_floor({"a": v})):
        with pytest.raises(InputError, match="positive"):
            function(values)
