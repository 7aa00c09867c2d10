"""Annealing: keeps the plan's rules, never makes an order worse, and reaches what long searches reach."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from odin.planner import LocalityGraph, locality_graph, partition
from odin.planner.anneal import anneal_epoch, dense_coupling

from .captures import ring, scattered, track_lists, tracks_from
from .plain import dense
from .test_schedule import schedule_steps as schedule
from .test_schedule import visits_after


def test_the_matrix_holds_all_weights() -> None:
    graph = locality_graph(ring(30)[0])
    assert np.array_equal(dense_coupling(graph), dense(graph))


def objective(matrix: NDArray, steps: NDArray[np.int64]) -> float:
    """Sum over consecutive steps of the largest coupling, pair by pair."""
    return float(sum(matrix[np.ix_(a, b)].max() for a, b in pairwise(steps)))


def random_graph(count: int, seed: int) -> LocalityGraph:
    rng = np.random.default_rng(seed)
    return locality_graph(tracks_from(rng.integers(0, count, (3 * count, 3)).tolist(), count), top_k=None)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(2, 40), st.integers(1, 6), st.integers(0, 3), st.integers(0, 99))
def test_trades_keep_steps_regions_and_the_next_epoch(count: int, batch: int, first: int, seed: int) -> None:
    """And the objective that the search thinks it improves is the real one."""
    rng = np.random.default_rng(seed)
    batch = min(batch, count)
    begun = -(-count // batch)
    epoch, spare = rng.permutation(count), begun * batch - count
    head = rng.permutation(epoch[: (begun - 1) * batch])[:spare]
    before = rng.permutation(np.resize(np.arange(count), max(first * batch, count)))[: first * batch]
    if len(head) < spare:
        return
    steps = np.concatenate([before, epoch, head]).astype(np.int64).reshape(-1, batch)
    label = rng.integers(0, 3, count).astype(np.int32)
    matrix = dense_coupling(random_graph(count, seed))
    after = steps.copy()
    anneal_epoch(matrix, label, after, first, count, proposals=300, seed=seed)
    assert np.array_equal(after[:first], steps[:first])
    assert np.array_equal(after.reshape(-1)[first * batch + count :], head)
    assert np.array_equal(np.sort(after[first:].reshape(-1)[:count]), np.arange(count))
    assert np.array_equal(np.sort(label[after], axis=1), np.sort(label[steps], axis=1))
    assert all(len(np.unique(step)) == batch for step in after[first:])
    start = max(first - 1, 0)
    assert objective(matrix, after[start:]) <= objective(matrix, steps[start:]) + 1e-5


@settings(max_examples=20, deadline=None, derandomize=True)
@given(track_lists(), st.integers(1, 3), st.integers(1, 4), st.integers(0, 5))
def test_an_annealed_stream_is_a_stream_of_epochs(
    case: tuple[list[list[int]], int], ranks: int, regions: int, seed: int
) -> None:
    lists, count = case
    count = max(count, 2 * ranks * regions)
    graph = locality_graph(tracks_from(lists, count), top_k=None)
    shape = {"regions": regions, "ranks": ranks, "views_per_unit": 2, "seed": seed, "proposals": 20}
    order = schedule(graph, scattered(count), steps=2 * count, **shape)
    visits = visits_after(order.units, count)
    assert np.all(visits.max(axis=1) - visits.min(axis=1) <= 1)
    assert all(len(np.unique(step)) == 2 * ranks for step in order.units)
    shorter = schedule(graph, scattered(count), steps=count // 2 + 1, **shape)
    assert np.array_equal(order.units[: count // 2 + 1], shorter.units)


@pytest.mark.parametrize("ranks", [2, 4])
def test_annealing_improves_a_greedy_order(ranks: int) -> None:
    tracks, centres = ring(70, reach=12)
    graph = locality_graph(tracks, top_k=None)
    shape = {"regions": 4, "ranks": ranks, "views_per_unit": 2, "steps": 40, "seed": 0}
    matrix = dense_coupling(graph)
    greedy, annealed = (
        objective(matrix, schedule(graph, centres, proposals=number, **shape).units.reshape(40, -1))
        for number in (0, 300)
    )
    assert annealed < greedy
    assert partition(centres, 4).max() == 3
