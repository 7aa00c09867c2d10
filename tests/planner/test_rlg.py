"""The sparse locality graph against python sets (§4.1.1, eq. 1)."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.errors import InputError
from odin.planner import LocalityGraph, graph_from_pairs, locality_graph
from odin.tracks import Tracks

from .captures import ring, track_lists, tracks_from

Edges = dict[tuple[int, int], np.float32]


def edges(graph: LocalityGraph) -> Edges:
    """All stored edges; each pair occurs in both directions."""
    source = np.repeat(np.arange(graph.view_count), graph.degree)
    keys = zip(source.tolist(), graph.neighbours.tolist(), strict=True)
    return dict(zip(keys, graph.weights, strict=True))


def brute_force(lists: list[list[int]], view_count: int) -> Edges:
    """Eq. 1 from sets of track numbers, pair by pair."""
    sets: list[set[int]] = [{p for p, views in enumerate(lists) if v in views} for v in range(view_count)]
    found: Edges = {}
    for a, b in combinations(range(view_count), 2):
        if sets[a] & sets[b]:
            found[a, b] = found[b, a] = np.float32(len(sets[a] & sets[b]) / len(sets[a] | sets[b]))
    return found


def strongest(full: Edges, view_count: int, top_k: int) -> Edges:
    """The edges that are among the `top_k` strongest of one of their ends, sorted the slow way."""
    kept: Edges = {}
    for a in range(view_count):
        own = sorted((-w, pair) for pair, w in full.items() if pair[0] == a)
        for w, (_, b) in own[:top_k]:
            kept[a, b] = kept[b, a] = -w
    return kept


@settings(max_examples=60, deadline=None, derandomize=True)
@given(track_lists(), st.integers(0, 6))
def test_equals_brute_force(case: tuple[list[list[int]], int], top_k: int) -> None:
    lists, count = case
    full = brute_force(lists, count)
    tracks = tracks_from(lists, count)
    assert edges(locality_graph(tracks, top_k=None)) == full
    assert edges(locality_graph(tracks, top_k=top_k)) == strongest(full, count, top_k)


def test_capped_sets_are_what_is_left_of_long_tracks() -> None:
    lists = [list(range(20)), [0, 1], [1, 2]]
    graph = locality_graph(tracks_from(lists, 21), track_cap=5)
    long_only = locality_graph(tracks_from(lists[:1], 21), track_cap=5)
    assert np.count_nonzero(long_only.degree) == 5
    assert set(edges(long_only).values()) == {np.float32(1)}
    assert {(0, 1), (1, 2)} <= edges(graph).keys()
    assert graph.weights.max() <= 1


def test_a_cap_that_nothing_exceeds_changes_nothing() -> None:
    tracks, _ = ring(30)
    assert edges(locality_graph(tracks, track_cap=4)) == edges(locality_graph(tracks))


def test_repeated_observations_count_once_and_lone_tracks_widen_the_union() -> None:
    assert edges(locality_graph(tracks_from([[0, 1, 1, 0]], 2))) == {(0, 1): 1, (1, 0): 1}
    assert edges(locality_graph(tracks_from([[0, 1], [0]], 2))) == {(0, 1): 0.5, (1, 0): 0.5}


def test_views_without_tracks_have_degree_0() -> None:
    assert locality_graph(tracks_from([[1, 3], [4]], 6)).degree.tolist() == [0, 1, 0, 1, 0, 0]
    assert locality_graph(Tracks.empty(3)).degree.tolist() == [0, 0, 0]


def test_edges_of_lists_views_in_the_order_given() -> None:
    graph = graph_from_pairs(np.array([0, 1]), np.array([1, 2]), np.array([0.5, 0.25]), view_count=4)
    neighbours, weights = graph.edges_of(np.array([2, 3, 1]))
    assert neighbours.tolist() == [1, 0, 2]
    assert weights.tolist() == [0.25, 0.5, 0.25]
    assert graph.edges_of(np.array([], np.int64))[0].size == 0


def test_zero_weights_are_not_edges() -> None:
    graph = graph_from_pairs(np.array([0, 2]), np.array([1, 1]), np.array([0.0, 0.3]), view_count=3)
    assert graph.degree.tolist() == [0, 1, 1]


def test_inconsistent_arrays_are_refused() -> None:
    with pytest.raises(InputError, match="edges needs as many weights"):
        LocalityGraph(offsets=np.array([0, 2]), neighbours=np.zeros(1, np.int32), weights=np.zeros(1, np.float32))
