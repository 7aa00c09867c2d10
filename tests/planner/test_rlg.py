"""The sparse locality graph against python sets (§4.1.1, eq. 1)."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.errors import InputError
from odin.planner import SETTINGS, LocalityGraph, graph_from_pairs, graph_setting, locality_graph, pieces, rows
from odin.planner.row_kernels import VIEW
from odin.planner.rows import RowTable, row_table
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


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.integers(0, 999), st.integers(2, 60), st.sampled_from([None, 1, 3, 16]), st.sampled_from([None, 5, 64]))
def test_long_unordered_tracks_on_any_number_of_threads(
    seed: int, count: int, top_k: int | None, track_cap: int | None
) -> None:
    """Image ids with gaps, repeats, tracks longer than what is sorted by insertion; K above the number of views."""
    rng = np.random.default_rng(seed)
    lists = [(2 * rng.integers(0, count, rng.integers(0, 70))).tolist() for _ in range(30)]
    tracks = tracks_from(lists, 2 * count)
    full = brute_force(lists, 2 * count)
    graph = locality_graph(tracks, top_k=top_k, threads=1)
    assert edges(graph) == (full if top_k is None else strongest(full, 2 * count, top_k))
    shape = {"top_k": top_k, "track_cap": track_cap, "observations": 6}
    one = locality_graph(tracks, threads=1, **shape)
    for threads in (2, 3):
        assert edges(locality_graph(tracks, threads=threads, top_k=top_k)) == edges(graph)
        assert edges(locality_graph(tracks, threads=threads, **shape)) == edges(one)
    assert all(0 < weight <= 1 for weight in edges(one).values())


def sampled_rows(threads: int) -> RowTable:
    """Of 300 tracks of up to eight views, capped and sampled."""
    rng = np.random.default_rng(0)
    tracks = tracks_from([rng.integers(0, 61, rng.integers(0, 9)).tolist() for _ in range(300)], 61)
    return row_table(tracks, track_cap=5, observations=12, threads=threads)


def assert_equal_rows(one: RowTable, other: RowTable) -> None:
    for name in ("starts", "table", "inner", "positions", "sizes"):
        assert np.array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("buckets", [1, 3, 20])
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_that_pass_through_buckets_end_in_the_same_place(
    buckets: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct = sampled_rows(threads)
    monkeypatch.setattr(rows, "BUCKETS", buckets)
    assert_equal_rows(direct, sampled_rows(threads))


@pytest.mark.parametrize("piece", [1, 50, 400])
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_that_are_collected_twice_to_save_memory_are_the_same(
    piece: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 1,200 observations, a thread holds the rows of its first piece, or of the first few."""
    held = sampled_rows(threads)
    monkeypatch.setattr(pieces, "PIECE", piece)
    assert_equal_rows(held, sampled_rows(threads))


def test_a_sample_that_holds_everything_is_exact() -> None:
    tracks, _ = ring(30, reach=7)
    assert edges(locality_graph(tracks, observations=7)) == edges(locality_graph(tracks))


def test_a_sample_estimates_similarity_also_between_views_that_see_much_and_little() -> None:
    """Views 0 and 1 share 2,000 of 8,000 tracks; view 2 sees 200 of view 0's 5,000."""
    rng = np.random.default_rng(0)
    lists = [[0, 1]] * 2000 + [[0, 2]] * 200 + [[0]] * 2800 + [[1]] * 3000
    rng.shuffle(lists)
    found = edges(locality_graph(tracks_from(lists, 3), observations=500))
    assert found[0, 1] == pytest.approx(2000 / 8000, rel=0.2)  # √(1/200 + …): 2.5 standard deviations
    assert found[0, 2] == pytest.approx(200 / 5000, rel=0.6)


def test_every_view_of_a_long_track_is_kept_equally_often() -> None:
    kept = np.zeros(40)
    tracks = tracks_from([list(range(40))] * 2000, 40)
    table = row_table(tracks, track_cap=10, observations=None, threads=1)
    kept = np.bincount(table.table & VIEW, minlength=40)
    assert kept.sum() == 20_000
    assert np.all(np.abs(kept - 500) < 5 * np.sqrt(2000 * 0.25 * 0.75))


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize(("views", "neighbours"), [(2000, 64), (2001, 16)])
def test_settings(name: str, views: int, neighbours: int) -> None:
    setting = graph_setting(name, views)
    assert setting.top_k == neighbours
    sampled = name == "default" and views > 2000
    assert setting.observations == (256 if sampled else None)
    cap = {"all_cap64": 64, "all_cap16": 16, "default": 16 if sampled else None}
    assert setting.track_cap == cap[name]


def test_what_makes_no_graph_is_refused() -> None:
    tracks, _ = ring(10)
    with pytest.raises(InputError, match="no setting 'fast'; use one of all_cap64"):
        graph_setting("fast", 10)
    for bad in ({"top_k": -1}, {"track_cap": 0}, {"observations": 0}, {"threads": 0}):
        with pytest.raises(InputError, match=f"{next(iter(bad))}={next(iter(bad.values()))}; use"):
            locality_graph(tracks, **bad)


def test_one_view_and_more_neighbours_than_views() -> None:
    assert locality_graph(tracks_from([[0], [0, 0], []], 1)).degree.tolist() == [0]
    assert edges(locality_graph(tracks_from([[0, 1]], 2), top_k=64)) == {(0, 1): 1, (1, 0): 1}


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
