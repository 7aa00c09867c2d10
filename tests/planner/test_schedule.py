"""SDS checked rule by rule against a replay in plain python, and the flags of SAS (§4.2)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from odin.errors import InputError
from odin.plan import Blocking
from odin.planner import (
    LocalityGraph,
    StepOrder,
    blocking_flags,
    locality_graph,
    partition,
    random_units,
    region_coupling,
    schedule_steps,
)
from odin.planner.stream import crosses_epoch

from .captures import ring, scattered, track_lists, tracks_from, visits_after
from .plain import dense, plain_steps


def replay(order: StepOrder, graph: LocalityGraph, centres: NDArray[np.float64], regions: int) -> None:
    """Assert the rules of `schedule_steps` step by step: turns, eq. 2, and how a short step is completed."""
    count, weight = len(centres), dense(graph)
    label = partition(centres, regions)
    coupling = region_coupling(graph, label, regions)
    visits, turns = np.zeros(count, int), np.zeros(regions, int)
    last, before, epoch = -1, np.zeros(0, int), 0
    for step, region in zip(order.units, order.region, strict=True):
        views = step.ravel()
        left = visits == visits.min()
        if visits.min() > epoch:
            epoch, turns[:] = visits.min(), 0
        stock = np.bincount(label[left], minlength=regions)
        able = stock >= len(views) if (stock >= len(views)).any() else stock > 0
        due = set(np.flatnonzero(able & (turns == turns[able].min())).tolist())
        assert region in due
        rivals = due - {last} or due
        assert last < 0 or coupling[last, region] == min(coupling[last, other] for other in rivals)
        score = weight[:, before].sum(axis=1)
        check_fill(views, left, label, score, coupling[region], int(region))
        visits[views] += 1
        turns[region] += 1
        last, before = int(region), views


def check_fill(
    views: NDArray[np.int32],
    left: NDArray[np.bool_],
    label: NDArray[np.int32],
    score: NDArray[np.float64],
    strength: NDArray[np.float64],
    region: int,
) -> None:
    """Assert that no view outside the step had a better claim to a place in it than one inside."""
    strength = strength.copy()
    strength[region] = np.inf
    claim = [(not left[v], -strength[label[v]]) for v in range(len(left))]
    inside = set(views.tolist())
    worst = max(claim[v] for v in inside)
    for v in range(len(left)):
        if v in inside:
            continue
        assert claim[v] >= worst
        equals = [u for u in inside if claim[u] == claim[v] and label[u] == label[v]]
        assert all(score[u] <= score[v] + 1e-9 for u in equals)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(track_lists(), st.integers(1, 3), st.integers(1, 2), st.integers(1, 5), st.integers(0, 5))
def test_follows_its_rules(case: tuple[list[list[int]], int], ranks: int, unit: int, regions: int, seed: int) -> None:
    lists, count = case
    count = max(count, ranks * unit * regions)
    graph = locality_graph(tracks_from(lists, count))
    centres = scattered(count)
    steps = 3 * count // (ranks * unit) + 1
    order = schedule_steps(graph, centres, regions=regions, ranks=ranks, views_per_unit=unit, steps=steps, seed=seed)
    replay(order, graph, centres, regions)
    visits = visits_after(order.units, count)
    assert np.all(visits.max(axis=1) - visits.min(axis=1) <= 1)
    assert all(len(np.unique(step)) == ranks * unit for step in order.units)
    label = partition(centres, regions)[order.units.reshape(steps, -1)]
    foreign = (label != order.region[:, None]).any(axis=1)
    assert np.array_equal(order.mixed, foreign | crosses_epoch(count, ranks * unit, steps))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(track_lists(), st.integers(1, 3), st.integers(1, 2), st.integers(1, 5), st.integers(0, 5))
def test_equals_scoring_and_sorting_all_views(
    case: tuple[list[list[int]], int], ranks: int, unit: int, regions: int, seed: int
) -> None:
    lists, count = case
    count, batch = max(count, ranks * unit, regions), ranks * unit
    graph, centres = locality_graph(tracks_from(lists, count)), scattered(count)
    order = schedule_steps(
        graph, centres, regions=regions, ranks=ranks, views_per_unit=unit, steps=2 * count, seed=seed
    )
    views, region = plain_steps(graph, centres, regions=regions, batch=batch, steps=2 * count, seed=seed)
    assert order.region.tolist() == region
    assert np.sort(order.units.reshape(2 * count, batch), axis=1).tolist() == views


def test_shuffled_regions_take_turns_too() -> None:
    tracks, centres = ring(48)
    order = schedule_steps(
        locality_graph(tracks), centres, regions=4, ranks=2, views_per_unit=2, steps=36, seed=0, shuffled=True
    )
    assert all(sorted(four) == [0, 1, 2, 3] for four in order.region.reshape(-1, 4).tolist())
    assert len({tuple(four) for four in order.region.reshape(-1, 4).tolist()}) > 3
    assert np.all(visits_after(order.units, 48)[-1] == 3)


def test_the_replay_rejects_other_orders() -> None:
    tracks, centres = ring(40)
    graph, order = locality_graph(tracks), ring_order(seed=0)
    replay(order, graph, centres, 4)
    with pytest.raises(AssertionError):
        replay(replace(order, units=random_units(40, 2, 2, 20, 0)), graph, centres, 4)
    with pytest.raises(AssertionError):
        replay(replace(order, units=order.units[::-1], region=order.region[::-1]), graph, centres, 4)


def ring_order(seed: int, regions: int = 4, steps: int = 20) -> StepOrder:
    tracks, centres = ring(40)
    return schedule_steps(
        locality_graph(tracks), centres, regions=regions, ranks=2, views_per_unit=2, steps=steps, seed=seed
    )


def test_regions_take_turns_and_neighbours_avoid_each_other() -> None:
    order = ring_order(seed=0, steps=8)
    assert sorted(order.region[:4].tolist()) == sorted(order.region[4:].tolist()) == [0, 1, 2, 3]
    tracks, centres = ring(40)
    coupling = region_coupling(locality_graph(tracks), partition(centres, 4), 4)
    assert coupling[order.region[0], order.region[1]] == 0
    assert coupling[order.region[2], order.region[3]] == 0


def test_a_region_that_runs_short_is_completed_and_flagged() -> None:
    """10 views per region and 4 per step: two whole steps each, then 2 + 2 from a neighbour."""
    order = ring_order(seed=0, steps=10)
    assert order.mixed.tolist() == [False] * 8 + [True] * 2
    label = partition(ring(40)[1], 4)
    for step in (8, 9):
        assert len(np.unique(label[order.units[step]])) == 2
    assert np.all(visits_after(order.units, 40)[-1] == 1)


def test_units_hold_near_views() -> None:
    order = ring_order(seed=0, steps=8)
    centres = ring(40)[1]
    within = np.linalg.norm(centres[order.units[..., 0]] - centres[order.units[..., 1]], axis=-1).mean()
    across = np.linalg.norm(centres[order.units[:, 0, 0]] - centres[order.units[:, 1, 1]], axis=-1).mean()
    assert within < across


def test_seeds_change_the_order_and_repeat_it() -> None:
    assert np.array_equal(ring_order(3).units, ring_order(3).units)
    assert len({ring_order(seed).units.tobytes() for seed in range(6)}) == 6
    assert len({int(ring_order(seed).region[0]) for seed in range(12)}) > 1


def test_structural_events_block_their_window() -> None:
    flags = blocking_flags(4, structural_after=np.array([True, False, False, True]))
    assert flags.tolist() == [Blocking.STRUCTURAL, 0, 0]


def test_reasons_add_up() -> None:
    flags = blocking_flags(
        3,
        structural_after=np.array([True, False, False]),
        memory=np.array([True, False]),
        no_gain=np.array([False, True]),
    )
    assert flags.tolist() == [Blocking.STRUCTURAL | Blocking.MEMORY, Blocking.NO_GAIN]


def test_short_plans_have_no_windows() -> None:
    assert blocking_flags(0, structural_after=np.zeros(0, bool)).size == 0
    assert blocking_flags(1).size == 0


def test_flags_of_another_length_are_refused() -> None:
    with pytest.raises(InputError, match="STRUCTURAL flags: 3 given, 4 expected"):
        blocking_flags(4, structural_after=np.zeros(3, bool))
