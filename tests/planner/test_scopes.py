"""Geometry, computation and importance graphs against python sets (Fig. 5)."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.bitmap import pack
from odin.errors import InputError
from odin.planner import Activity, computation_graph, geometry_graph, importance_graph

from .test_rlg import Edges, edges, strongest

Sets = list[dict[int, float]]


@st.composite
def gradients(draw: st.DrawFn) -> tuple[Sets, int]:
    """Active primitives of each view with their gradient norms, and N; views may see nothing."""
    rows = draw(st.integers(1, 80))
    norm = st.sampled_from([0.0, 0.125, 1.0, 3.0, 20.0])
    return draw(st.lists(st.dictionaries(st.integers(0, rows - 1), norm, max_size=12), min_size=1, max_size=9)), rows


def activity(sets: Sets, rows: int) -> Activity:
    return Activity(
        offsets=np.cumsum([0, *map(len, sets)]).astype(np.int64),
        rows=np.array([row for one in sets for row in one], np.int32),
        norms=np.array([norm for one in sets for norm in one.values()], np.float32),
        row_count=rows,
    )


def brute_force(sets: list[set[int]]) -> Edges:
    found: Edges = {}
    for a, b in combinations(range(len(sets)), 2):
        if sets[a] & sets[b]:
            found[a, b] = found[b, a] = np.float32(len(sets[a] & sets[b]) / len(sets[a] | sets[b]))
    return found


@settings(max_examples=60, deadline=None, derandomize=True)
@given(gradients(), st.integers(0, 4), st.sampled_from([0.0, 0.2, 1.0]))
def test_equal_brute_force(case: tuple[Sets, int], top_k: int, tau: float) -> None:
    sets, rows = case
    active = [set(one) for one in sets]
    dominant = [{row for row in one if one[row] > tau * sum(one.values()) / len(one)} for one in sets]
    mask = np.array([[row in one for row in range(rows)] for one in active])
    for graph, expected in (
        (geometry_graph(pack(mask), rows, top_k=None), brute_force(active)),
        (computation_graph(activity(sets, rows), top_k=None), brute_force(active)),
        (importance_graph(activity(sets, rows), tau=tau, top_k=None), brute_force(dominant)),
    ):
        assert edges(graph) == expected
    kept = computation_graph(activity(sets, rows), top_k=top_k)
    assert edges(kept) == strongest(brute_force(active), len(sets), top_k)


def test_selective_evidence_gives_the_sparser_graph() -> None:
    """Four views; scopes overlap all around, activity only between neighbours, weight only between two of them."""
    scopes = pack(np.array([[1, 1, 1, 0], [1, 1, 1, 1], [0, 1, 1, 1], [1, 0, 1, 1]], bool))
    seen = activity([{0: 5.0, 1: 0.01}, {0: 5.0, 2: 0.01}, {2: 5.0, 3: 0.01}, {3: 5.0}], 4)
    pairs = [
        len(graph.neighbours) // 2
        for graph in (geometry_graph(scopes, 4), computation_graph(seen), importance_graph(seen))
    ]
    assert pairs == [6, 3, 1]


def test_what_does_not_fit_is_refused() -> None:
    none, ids = np.zeros(2, np.int64), np.zeros(1, np.int32)
    with pytest.raises(InputError, match=r"have shape \[V, 2\]"):
        geometry_graph(np.zeros((3, 1), np.uint64), 65)
    with pytest.raises(InputError, match="must rise from 0"):
        Activity(offsets=none, rows=ids, norms=np.ones(1, np.float32), row_count=1)
    with pytest.raises(InputError, match="names primitive 0; there are 0"):
        Activity(offsets=np.array([0, 1]), rows=ids, norms=np.ones(1, np.float32), row_count=0)
    with pytest.raises(InputError, match="norm of at least 0"):
        Activity(offsets=np.array([0, 1]), rows=ids, norms=np.full(1, np.nan, np.float32), row_count=1)
    with pytest.raises(InputError, match="tau=-1"):
        importance_graph(activity([{0: 1.0}], 1), tau=-1)
