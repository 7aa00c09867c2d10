"""`build_plan`: validity, epochs, K, fallbacks and provenance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.errors import InputError
from odin.plan import Blocking, Plan
from odin.planner import Frusta, build_plan
from odin.planner import build as module
from odin.planner import settings as settings_module
from odin.tracks import Tracks

from .captures import ring, scattered, track_lists, tracks_from, visits_after


def ring_plan(
    *, count: int = 40, order: str = "plan", regions: int = 4, ranks: int = 2, steps: int = 20, seed: int = 0
) -> Plan:
    tracks, centres = ring(count)
    return build_plan(
        tracks=tracks,
        centres=centres,
        order=order,
        ranks=ranks,
        views_per_unit=2,
        steps=steps,
        regions=regions,
        seed=seed,
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    track_lists(),
    st.sampled_from(module.ORDERS),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(1, 40),
    st.integers(0, 5),
)
def test_every_view_once_per_epoch(
    case: tuple[list[list[int]], int], order: str, ranks: int, unit: int, regions: int, seed: int
) -> None:
    """Views without tracks included; after a whole number of epochs all counts are equal."""
    lists, count = case
    batch = ranks * unit
    count = max(count, batch)
    plan = build_plan(
        tracks=tracks_from(lists, count),
        centres=scattered(count),
        order=order,
        ranks=ranks,
        views_per_unit=unit,
        steps=2 * count,
        regions=regions,
        seed=seed,
    )
    visits = visits_after(plan.units, count)
    assert np.all(visits.max(axis=1) - visits.min(axis=1) <= 1)
    assert np.all(visits[-1] == 2 * batch)
    assert plan.provenance["mixed_steps"] == plan.mixed.sum()
    assert np.all((plan.region >= 0) == (plan.provenance["order_used"] == "plan"))
    assert plan.provenance["regions_used"] in (0, min(regions, count // batch))


@pytest.mark.parametrize(("count", "asked", "used"), [(40, 4, 4), (40, 10, 10), (40, 11, 10), (15, 4, 3), (8, 100, 2)])
def test_k_is_lowered_to_what_can_fill_a_step(count: int, asked: int, used: int) -> None:
    plan = ring_plan(count=count, regions=asked)
    assert plan.provenance["regions_used"] == used
    assert plan.region.max() == used - 1
    assert bool(plan.provenance["order_note"]) == (asked != used)


@pytest.mark.parametrize(("count", "regions"), [(4, 4), (7, 4), (40, 1)])
def test_below_two_regions_the_order_is_random_and_says_so(count: int, regions: int) -> None:
    plan = ring_plan(count=count, regions=regions)
    assert np.array_equal(plan.units, ring_plan(count=count, order="random").units)
    assert np.all(plan.region == -1)
    assert plan.provenance["order"] == "plan"
    assert plan.provenance["order_used"] == "random"
    assert "below 2 regions" in str(plan.provenance["order_note"])


def test_batch_equal_to_the_views_trains_all_in_every_step() -> None:
    plan = ring_plan(count=4, steps=5)
    assert np.array_equal(np.sort(plan.units.reshape(5, 4)), np.tile(np.arange(4), (5, 1)))
    assert not plan.mixed.any()


@pytest.mark.parametrize("order", module.ORDERS)
def test_plans_repeat_and_seeds_differ(order: str) -> None:
    assert ring_plan(order=order).digest() == ring_plan(order=order).digest()
    assert len({ring_plan(order=order, seed=seed).digest() for seed in range(5)}) == 5


def test_planner_time_is_recorded_but_not_hashed() -> None:
    first, second = ring_plan(), ring_plan()
    assert first.provenance["planner_seconds"] != second.provenance["planner_seconds"]
    assert first.digest() == second.digest()


def test_without_tracks_frusta_give_the_coupling() -> None:
    _, centres = ring(24)
    frusta = Frusta(
        centres=centres,
        rotations=np.stack([np.stack([[-y, x, 0], [0, 0, -1], [x, y, 0]]) for x, y, _ in -centres]),
        tan_x=np.full(24, 0.3),
        tan_y=np.full(24, 0.3),
    )
    shape: dict[str, Any] = {"ranks": 2, "views_per_unit": 2, "steps": 24, "seed": 0}
    with_frusta = build_plan(tracks=Tracks.empty(24), centres=centres, order="plan", frusta=frusta, **shape)
    assert with_frusta.provenance["graph"] == "no tracks: frustum overlap"
    assert int(with_frusta.provenance["edges"]) > 0
    assert with_frusta.provenance["views_without_tracks"] == 24
    without = build_plan(tracks=Tracks.empty(24), centres=centres, order="plan", **shape)
    assert without.provenance["graph"] == "no tracks: no coupling known"
    for plan in (with_frusta, without):
        assert np.all(visits_after(plan.units, 24)[-1] == 4)
    tracks, _ = ring(24)
    ignored = build_plan(tracks=tracks, centres=centres, order="plan", frusta=frusta, **shape)
    assert ignored.provenance["graph"] == "tracks: Jaccard"


def test_large_captures_cap_long_tracks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ring_plan().provenance["track_cap"] == 0
    monkeypatch.setattr(settings_module, "UNCAPPED_VIEWS", 39)
    assert ring_plan().provenance["track_cap"] == settings_module.LONG_TRACK


def test_structural_events_block_windows_and_enter_the_digest() -> None:
    tracks, centres = ring(40)
    shape: dict[str, Any] = {"ranks": 2, "views_per_unit": 2, "steps": 6, "seed": 0}
    events = np.array([False, True, False, False, False, True])
    plan = build_plan(tracks=tracks, centres=centres, order="plan", structural_after=events, **shape)
    assert plan.blocking.tolist() == [0, Blocking.STRUCTURAL, 0, 0, 0]
    assert plan.digest() != build_plan(tracks=tracks, centres=centres, order="plan", **shape).digest()
    assert "not evaluated" in str(plan.provenance["sas"])


def test_a_plan_of_one_step_has_no_windows() -> None:
    for order in module.ORDERS:
        assert ring_plan(order=order, steps=1).blocking.size == 0


def test_more_views_per_step_than_there_are_is_refused() -> None:
    with pytest.raises(InputError, match="needs 42 different views"):
        ring_plan(ranks=21)


def test_inputs_that_do_not_belong_together_are_refused() -> None:
    tracks, centres = ring(40)
    shape: dict[str, Any] = {"ranks": 2, "views_per_unit": 2, "steps": 6, "seed": 0}
    with pytest.raises(InputError, match="use one of plan, regions, random"):
        build_plan(tracks=tracks, centres=centres, order="capture", **shape)
    with pytest.raises(InputError, match="regions=0"):
        build_plan(tracks=tracks, centres=centres, order="plan", regions=0, **shape)
    with pytest.raises(InputError, match=r"expected \(40, 3\)"):
        build_plan(tracks=tracks, centres=centres[:30], order="plan", **shape)
    few = Frusta(centres=centres[:1], rotations=np.eye(3)[None], tan_x=np.ones(1), tan_y=np.ones(1))
    with pytest.raises(InputError, match="1 frusta for 40"):
        build_plan(tracks=tracks, centres=centres, order="plan", frusta=few, **shape)
