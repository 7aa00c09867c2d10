"""A reading is a number or a reason, never both and never a NaN."""

from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

from harness.store.record import Reading, Record


class Sample(Record):
    values: tuple[float, ...] = ()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_is_refused(value: float) -> None:
    with pytest.raises(ValidationError):
        Reading.of(value)
    with pytest.raises(ValidationError):
        Sample(values=(1.0, value))


@pytest.mark.parametrize("keys", [{}, {"value": 1.0, "reason": "n/a"}, {"reason": "  "}])
def test_a_reading_is_a_value_or_a_reason(keys: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Reading(**keys)


def test_an_unknown_key_and_a_change_are_refused() -> None:
    with pytest.raises(ValidationError, match="unknown"):
        Sample(unknown=1)
    with pytest.raises(ValidationError, match="frozen"):
        Sample().values = (1.0,)


def test_a_ratio_without_a_denominator_says_why() -> None:
    assert Reading.ratio(1.0, 4.0, "zero") == Reading.of(0.25)
    assert Reading.ratio(1.0, 0.0, "nothing was lost").reason == "n/a: nothing was lost"
    assert Reading.ratio(1e300, 1e-300, "too large").value is None


def test_a_mean_is_absent_where_a_part_is() -> None:
    some = [Reading.of(1.0), Reading.of(2.0)]
    assert Reading.mean(some, "none").value == 1.5
    assert Reading.mean([*some, Reading.absent("lost")], "none").reason == "lost"
    assert Reading.mean([], "no test views").reason == "n/a: no test views"


def test_a_difference_and_its_text() -> None:
    assert Reading.of(3.0).minus(Reading.of(1.0)).text(".1f", 100, " %") == "200.0 %"
    assert Reading.of(3.0).minus(Reading.absent("a")).text() == "a"
    assert Reading.absent("b").minus(Reading.of(1.0)).text() == "b"
