"""`odin.planner.sas`: every reason blocks its windows, and only those."""

from __future__ import annotations

import numpy as np
import pytest

from odin.errors import InputError
from odin.plan import Blocking, Plan
from odin.planner import build_plan, locality_graph, order_quality
from odin.planner.sas import WORDS, Evidence, reason_counts, reasons, window_couplings, with_windows
from tests.planner.captures import ring

STEPS = 6


def planned() -> Plan:
    """Six steps on a ring; a structural event falls on the window after step 1."""
    tracks, centres = ring(24)
    after = np.zeros(STEPS, bool)
    after[1] = True
    return build_plan(tracks=tracks, centres=centres, order="plan", ranks=2, views_per_unit=2, steps=STEPS, seed=0,
                      structural_after=after)  # fmt: skip


def test_each_reason_blocks_its_own_windows() -> None:
    evidence = Evidence(
        live_bytes=np.array([10, 10, 10, 10, 11]),
        memory_budget=10,
        gain=np.array([1.0, 1.0, 0.0, 1.0, -1.0]),
        coupling=np.array([0.1, 0.3, 0.2, 0.21, 0.0]),
        coupling_limit=0.2,
    )
    plan = with_windows(planned(), evidence)
    assert [reasons(flag) for flag in plan.blocking] == [
        (),
        ("structural event", "coupling limit"),
        ("no gain",),
        ("coupling limit",),
        ("memory budget", "no gain"),
    ]
    assert reason_counts(plan) == {"coupling limit": 2, "no gain": 2, "structural event": 1, "memory budget": 1}
    assert plan.provenance["sas"] == ("structural events; memory ≤ 10 B; gain by the phase profile; coupling ≤ 0.2")


def test_what_is_not_evaluated_blocks_nothing() -> None:
    before = planned()
    plan = with_windows(before, Evidence(live_bytes=np.full(5, 10**12), coupling=np.ones(5)))
    assert plan.digest() == before.digest()
    assert plan.provenance["sas"] == "structural events; memory not limited; gain not evaluated"
    assert reason_counts(plan) == {"structural event": 1}


def test_order_views_and_other_provenance_stay() -> None:
    before = planned()
    plan = with_windows(before, Evidence(gain=np.zeros(5)))
    assert np.array_equal(plan.units, before.units)
    assert (plan.blocking & Blocking.NO_GAIN).all()
    assert {**plan.provenance, "sas": ""} == {**before.provenance, "sas": ""}
    assert plan.blocking.dtype == np.int32


def test_every_reason_has_a_word() -> None:
    assert set(WORDS) == set(Blocking)
    for reason in Blocking:
        assert reasons(reason) == (WORDS[reason],)


def test_couplings_are_those_of_the_order_quality() -> None:
    tracks, _ = ring(24)
    graph, plan = locality_graph(tracks, top_k=None), planned()
    assert window_couplings(graph, plan).mean() == pytest.approx(order_quality(graph, plan))


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ({"memory_budget": 1}, "needs live_bytes"),
        ({"memory_budget": -1, "live_bytes": np.ones(5)}, "from 0"),
        ({"coupling_limit": 0.2}, "needs the couplings"),
        ({"coupling_limit": 1.2, "coupling": np.ones(5)}, "between 0 and 1"),
    ],
)
def test_evidence_that_means_nothing_is_refused(evidence, message) -> None:
    with pytest.raises(InputError, match=message):
        Evidence(**evidence)


@pytest.mark.parametrize(
    "evidence",
    [
        {"gain": np.ones(4)},
        {"coupling": np.ones(4), "coupling_limit": 0.2},
        {"live_bytes": np.ones(4, int), "memory_budget": 3},
    ],
)
def test_evidence_of_another_plan_is_refused(evidence) -> None:
    with pytest.raises(InputError, match="of 6 steps"):
        with_windows(planned(), Evidence(**evidence))
