"""What fits on the link, by hand: 1,000 bytes per second, rows of 10 bytes of which 8 are colours."""

from __future__ import annotations

import math

import pytest

from odin.budget import Budget

# A unit of 100 rows in scope works 2 s, and a view of 50 rows goes backward for 0.25 s.
KNOWN = Budget(bytes_per_second=1000.0, unit_seconds=0.02, colour_window=0.005)


def test_without_a_known_link_there_is_no_limit() -> None:
    for budget in (Budget(), Budget(unit_seconds=1.0, colour_window=1.0)):
        assert budget.early_rows(100.0, 2, 800, 10) is None
        assert budget.colour_rows(50, 8) is None


def test_what_arrives_while_the_unit_goes_on_may_leave_early() -> None:
    # The first of two views is done after 1 s, when the link has finished the step before (0.8 s): 1 s is left.
    assert KNOWN.early_rows(100.0, 2, 800, 10) == 100
    # It is busy for 1.5 s: half a second is left.
    assert KNOWN.early_rows(100.0, 2, 1500, 10) == 50
    # Of four views the first is done after half a second, but the link is busy for 0.8 s.
    assert KNOWN.early_rows(100.0, 4, 800, 10) == 120
    assert KNOWN.early_rows(100.0, 4, 100, 10) == 150


def test_work_that_does_not_grow_with_rows_is_counted_per_view() -> None:
    # As above with 100 rows. With 400 a unit takes 5 s, not 8, and half of it is left once the first view is done.
    half = Budget(bytes_per_second=1000.0, unit_seconds=0.01, view_seconds=0.5)
    assert half.early_rows(100.0, 2, 800, 10) == 100
    assert half.early_rows(400.0, 2, 800, 10) == 250
    assert KNOWN.early_rows(400.0, 2, 800, 10) == 400


@pytest.mark.parametrize("payload", [2000, 2001, 10**9])
def test_a_busy_link_takes_nothing_early(payload: int) -> None:
    assert KNOWN.early_rows(100.0, 2, payload, 10) == 0


def test_nothing_is_early_in_a_unit_of_one_view() -> None:
    assert KNOWN.early_rows(100.0, 1, 10, 10) == 0


def test_colours_travel_during_the_projection_backward() -> None:
    assert KNOWN.colour_rows(50, 8) == 31  # 0.25 s · 1,000 bytes/s / 8 bytes = 31.25
    assert KNOWN.colour_rows(0, 8) == 0
    # A tenth of a second more that does not grow with rows: 0.35 s, and 0.1 s of an empty view.
    slow = Budget(bytes_per_second=1000.0, colour_window=0.005, colour_seconds=0.1)
    assert slow.colour_rows(50, 8) == 43
    assert slow.colour_rows(0, 8) == 12


def test_a_link_without_time_for_anything() -> None:
    idle = Budget(bytes_per_second=1000.0)
    assert idle.early_rows(100.0, 2, 0, 10) == 0
    assert idle.colour_rows(50, 8) == 0
    assert math.isinf(Budget().bytes_per_second)
