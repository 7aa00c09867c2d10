"""Every formula of D§7 on timelines that were added up by hand, and on random ones."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.measure.breakdown import (
    PARTS,
    Breakdown,
    breakdown,
    compare,
    limit,
    mean_breakdown,
)
from harness.store.record import Reading
from odin.errors import InputError

from .frames import LINES, NAN, Line, steps, timeline


def test_the_hand_made_cell() -> None:
    # Wall 14 s, 2 steps. Sums over both ranks, then ÷ 4:
    #   useful 4+1+2+1 + 5+1+2 = 16; transfer 1+2 + 1+2 = 6; skew 1 + 1 = 2; odin 1; structural 1+1 = 2
    #   other: rank 1 has no row from 13 to 14 = 1
    found = breakdown(timeline(), steps())
    assert (found.ranks, found.steps, found.step) == (2, 2, 7.0)
    assert [getattr(found, part) for part in PARTS] == [4.0, 1.5, 0.5, 0.25, 0.5, 0.25]
    assert found.wait_by_rank == (2.0, 2.0)
    assert found.useful_by_rank == (4.0, 4.0)
    assert found.lost == 3.0
    # Window 0 → 1: min(transfer 1, useful 3) + min(1, 2) = 2, of 6.
    assert found.hideable == Reading.of(2 / 6)
    assert limit(found) == Reading.of(7 / 4)


def test_a_structural_step_closes_the_window_after_it() -> None:
    assert breakdown(timeline(), steps((True, False))).hideable == Reading.of(0.0)


def test_hideable_is_bounded_by_the_useful_time_of_the_next_step() -> None:
    lines: list[Line] = [
        (0, 0, "phase", "blend", "useful", 0, 1, NAN),
        (0, 0, "wait", "all", "wait", 1, 9, 1),
        (0, 1, "phase", "blend", "useful", 9, 12, NAN),
        (0, 1, "wait", "all", "wait", 12, 14, 12),
        (1, 0, "phase", "blend", "useful", 0, 1, NAN),
        (1, 0, "wait", "all", "wait", 1, 9, 1),
        (1, 1, "phase", "blend", "useful", 9, 12, NAN),
        (1, 1, "wait", "all", "wait", 12, 14, 12),
    ]
    # Per rank: min(8, 3) of 8 + 2; the last step's transfer has no next step.
    assert breakdown(timeline(lines), steps((False, False), (0, 9, 14))).hideable == Reading.of(3 / 10)


@pytest.mark.parametrize(
    "join, skew",
    [(0.0, 0.0), (4.0, 0.0), (5.0, 1.0), (6.0, 2.0), (9.0, 2.0)],
    ids=["before", "at", "inside", "end", "after"],
)
def test_skew_is_the_wait_until_the_last_rank_has_joined(join: float, skew: float) -> None:
    lines: list[Line] = [
        (0, 0, "wait", "all", "wait", 4, 6, join),
        (1, 0, "phase", "blend", "useful", 0, 6, NAN),
    ]
    found = breakdown(timeline(lines), steps((False,), (0, 6)))
    assert (found.skew, found.transfer) == (skew / 2, (2 - skew) / 2)


def test_an_arm_against_the_baseline() -> None:
    base = breakdown(timeline(), steps())
    # The same work, with rank 0's and rank 1's waits of step 1 halved by hand.
    faster = base.model_copy(update={"step": 6.0, "transfer": 0.75, "skew": 0.25})
    found = compare(faster, base)
    assert found.exposed == Reading.of(0.75 / 7)
    assert found.hidden == Reading.of(1 - 2 / 3)
    assert found.hidden_transfer == Reading.of(0.5)
    assert found.hidden_skew == Reading.of(0.5)
    same = compare(base, base)
    assert (same.exposed.value, same.hidden.value) == (1.5 / 7, 0.0)
    assert compare(base, faster).hidden == Reading.of(-0.5)


def test_the_busiest_rank_sets_the_limit() -> None:
    base = breakdown(timeline(), steps())
    assert limit(base.model_copy(update={"useful_by_rank": (4.0, 5.0)})) == Reading.of(7 / 5)


def test_a_cell_that_loses_nothing_has_reasons_instead_of_shares() -> None:
    lines: list[Line] = [(r, s, "phase", "blend", "useful", s, s + 1, NAN) for r in (0, 1) for s in (0, 1)]
    found = breakdown(timeline(lines), steps(bounds=(0, 1, 2)))
    assert found.hideable.reason == "n/a: no rank waits for a transfer"
    against = compare(found, found)
    assert against.exposed == Reading.of(0.0)
    assert against.hidden.reason == "n/a: the baseline loses no time"
    assert against.hidden_transfer.reason == "n/a: the baseline waits for no transfer"
    assert against.hidden_skew.reason == "n/a: the baseline waits for no slower rank"


def test_a_cell_without_rows_is_all_other() -> None:
    lines: list[Line] = [(0, 0, "collective", "all", "link", 0, 1, 0)]
    found = breakdown(timeline(lines), steps())
    assert (found.other, found.lost, found.useful) == (7.0, 7.0, 0.0)
    assert limit(found).reason == "n/a: no rank does useful work"


@pytest.mark.parametrize(
    "line, message",
    [
        ((0, 2, "phase", "blend", "useful", 13, 14, NAN), "outside"),
        ((2, 0, "phase", "blend", "useful", 0, 1, NAN), "outside"),
        ((1, 1, "phase", "eval", "useful", 14, 15, NAN), "outside"),
        ((1, 1, "phase", "setup", "useful", -1, 0, NAN), "outside"),
        ((1, 0, "phase", "inner", "odin", 1, 2, NAN), "counted twice"),
        ((1, 1, "phase", "late", "odin", 12.5, 13.5, NAN), "counted twice"),
    ],
)
def test_a_row_that_would_be_miscounted_is_refused(line: Line, message: str) -> None:
    with pytest.raises(InputError, match=message):
        breakdown(timeline([*LINES, line]), steps())


def test_unequal_cells_are_not_compared() -> None:
    short = breakdown(timeline(LINES[:3] + LINES[8:11]), steps((False,), (0, 7)))
    with pytest.raises(InputError, match="2 ranks × 1 steps"):
        compare(short, breakdown(timeline(), steps()))
    for wrong in ([], [short, breakdown(timeline(), steps())]):
        with pytest.raises(InputError, match="mean breakdown"):
            mean_breakdown(wrong)


def test_the_mean_over_repeats() -> None:
    one = breakdown(timeline(), steps())
    two = one.model_copy(update={"step": 8.0, "other": 1.25, "hideable": Reading.of(1.0)})
    mean = mean_breakdown([one, two])
    assert (mean.step, mean.other, mean.useful) == (7.5, 0.75, 4.0)
    assert mean.hideable == Reading.of((1 / 3 + 1) / 2)


@pytest.mark.parametrize("changes", [{"useful": 9.0}, {"wait_by_rank": (1.0,)}, {"step": float("nan")}])
def test_a_breakdown_that_does_not_add_up_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Breakdown(**(dict(breakdown(timeline(), steps())) | changes))


@st.composite
def gapless(draw: st.DrawFn) -> tuple[list[Line], list[float]]:
    """Rows of two ranks that fill every step to its end, and the steps' bounds."""
    bounds, lines = [0.0], []
    for step in range(draw(st.integers(1, 4))):
        bounds.append(bounds[-1] + draw(st.floats(1e-3, 2.0)))
        for rank in (0, 1):
            cuts = sorted(draw(st.lists(st.floats(0, 1), max_size=5)))
            edges = bounds[step] + np.array([0.0, *cuts, 1.0]) * (bounds[step + 1] - bounds[step])
            edges[-1] = bounds[step + 1]
            for start, end in itertools.pairwise(edges):
                category = draw(st.sampled_from(["useful", "odin", "structural", "wait"]))
                kind, join = ("wait", draw(st.floats(0, bounds[-1]))) if category == "wait" else ("phase", NAN)
                lines.append((rank, step, kind, "x", category, start, end, join))
    return lines, bounds


@settings(max_examples=25, deadline=None)
@given(gapless())
def test_the_parts_of_a_gapless_timeline_are_the_step(made: tuple[list[Line], list[float]]) -> None:
    lines, bounds = made
    found = breakdown(timeline(lines), steps((False,) * (len(bounds) - 1), tuple(bounds)))
    assert found.step == pytest.approx(bounds[-1] / (len(bounds) - 1))
    assert abs(found.other) < 1e-9 and min(getattr(found, p) for p in PARTS[:-1]) >= 0
    assert found.transfer + found.skew == pytest.approx(np.mean(found.wait_by_rank), abs=1e-12)
    assert found.useful == pytest.approx(np.mean(found.useful_by_rank), abs=1e-12)
    assert found.hideable.value is None or 0 <= found.hideable.value <= 1 + 1e-12


@settings(max_examples=25, deadline=None)
@given(gapless(), st.floats(0.1, 10.0))
def test_a_slower_clock_changes_no_share(made: tuple[list[Line], list[float]], factor: float) -> None:
    lines, bounds = made
    flags = (False,) * (len(bounds) - 1)
    one = breakdown(timeline(lines), steps(flags, tuple(bounds)))
    scaled = [(*line[:5], line[5] * factor, line[6] * factor, line[7] * factor) for line in lines]
    two = breakdown(timeline(scaled), steps(flags, tuple(factor * b for b in bounds)))
    assert two.useful / two.step == pytest.approx(one.useful / one.step, abs=1e-9)
    assert two.transfer / two.step == pytest.approx(one.transfer / one.step, abs=1e-9)
