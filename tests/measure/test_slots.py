"""States of the gradient ring from a timeline: whose gradient a collective carries, and what breaks the ledger."""

from __future__ import annotations

import pandas as pd
import pytest

from harness.measure.slots import SPAN_COLUMNS, in_use, slot_spans, state_shares
from odin.errors import InputError
from tests.measure.ring import timeline


def of(spans: pd.DataFrame, rank: int, step: int) -> dict[str, tuple[float, float]]:
    own = spans[(spans["rank"] == rank) & (spans["step"] == step)]
    return {row["state"]: (row["start"], row["end"]) for row in own.to_dict("records")}


def test_an_overlapped_step_travels_and_is_pending_in_the_next() -> None:
    spans = slot_spans(timeline())
    assert list(spans.columns) == SPAN_COLUMNS
    assert of(spans, 0, 1) == {
        "accumulating": (10.0, 16.0),
        "travelling": (16.0, 19.0),
        "pending": (19.0, 27.0),
        "free": (27.0, 30.0),
    }
    assert set(spans.loc[spans["step"] % 2 == 0, "slot"]) == {0}


def test_a_barrier_publishes_in_its_own_step() -> None:
    spans = slot_spans(timeline(overlapped=False))
    assert of(spans, 1, 1)["pending"] == (19.0, 20.0)
    assert in_use(spans) == 0.0 and in_use(slot_spans(timeline())) > 0.5


@pytest.mark.parametrize("late", [0.0, 2.0, 7.9])
def test_a_rank_that_runs_ahead_does_not_claim_the_gradient_of_another_step(late: float) -> None:
    # At 7.9 s the first rank has begun the next step's backward when the last one joins.
    spans = slot_spans(timeline(late=late))
    assert of(spans, 0, 1)["travelling"] == (16.0, 16.0 + late + 3)
    assert of(spans, 1, 1)["accumulating"] == (10.0 + late, 16.0 + late)


def test_spans_fill_the_time_and_shares_sum_to_one() -> None:
    frame = timeline(late=1.0)
    spans = slot_spans(frame)
    for _, own in spans.groupby(["rank", "slot"]):
        assert own["start"].iloc[0] == 0 and own["end"].iloc[-1] == frame["end"].max()
        assert (own["start"].to_numpy()[1:] == own["end"].to_numpy()[:-1]).all()
    assert sum(state_shares(spans).values()) == pytest.approx(1.0)


def test_a_step_that_sends_nothing_frees_its_slot() -> None:
    frame = timeline(steps=2)
    quiet = frame[~frame["name"].isin(["all", "costs", "update"])].reset_index(drop=True)
    assert set(of(slot_spans(quiet), 0, 1)) == {"accumulating"}
    assert of(slot_spans(quiet), 0, 0)["free"][0] == 6.0


def test_what_an_audit_recomputes_is_no_step() -> None:
    frame = timeline()
    again = frame[frame["name"].isin(["clear", "colour_backward"]) & (frame["step"] == 1)].copy()
    again[["start", "end"]] += 7.5
    again["category"] = "odin"
    pd.testing.assert_frame_equal(slot_spans(pd.concat([frame, again], ignore_index=True)), slot_spans(frame))


def test_a_slot_that_is_cleared_too_early_is_refused() -> None:
    frame = timeline()
    frame.loc[(frame["name"] == "clear") & (frame["step"] == 3), "start"] = 26.0
    with pytest.raises(InputError, match="cleared slot 1 for step 3 before step 1 was published"):
        slot_spans(frame)


def test_a_timeline_without_a_backward_in_two_parts_is_refused() -> None:
    frame = timeline()
    with pytest.raises(InputError, match="shows no slots"):
        slot_spans(frame[frame["name"] != "projection_backward"])
    early = frame[frame["kind"] == "collective"].iloc[:1].assign(last_join=1.0, start=1.0, end=2.0)
    with pytest.raises(InputError, match="before every rank had begun"):
        slot_spans(pd.concat([frame, early], ignore_index=True))
