"""Frustum overlap, the coupling of captures without tracks."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from odin.errors import InputError
from odin.planner import Frusta, frustum_graph
from odin.planner import frustum as module


def looking(centres: NDArray[np.float64], yaw: NDArray[np.float64], tan: float = 0.5) -> Frusta:
    """Cameras that look along (cos yaw, sin yaw, 0), world z up."""
    forward = np.stack([np.cos(yaw), np.sin(yaw), np.zeros_like(yaw)], axis=1)
    down = np.broadcast_to([0.0, 0.0, -1.0], forward.shape)
    rotations = np.stack([np.cross(down, forward), down, forward], axis=1)
    half = np.full(len(yaw), tan)
    return Frusta(centres=centres, rotations=rotations, tan_x=half, tan_y=half)


def weight(frusta: Frusta, a: int, b: int) -> float:
    graph = frustum_graph(frusta, top_k=None)
    neighbours, weights = graph.edges_of(np.array([a]))
    return float(weights[neighbours == b].max(initial=0.0))


def test_equal_views_overlap_fully_and_opposite_ones_not_at_all() -> None:
    frusta = looking(np.zeros((3, 3)), np.array([0.0, 0.0, np.pi]))
    assert frusta.depth_range == (module.NEAR, module.FAR)
    assert weight(frusta, 0, 1) == 1
    assert weight(frusta, 0, 2) == 0


def test_overlap_falls_with_the_angle() -> None:
    frusta = looking(np.zeros((4, 3)), np.array([0.0, 0.2, 0.5, 0.8]))
    values = [weight(frusta, 0, b) for b in (1, 2, 3)]
    assert values == sorted(values, reverse=True)
    assert 0 < values[2] < values[0] < 1


def test_the_estimate_is_close_to_the_volume() -> None:
    """A camera with half the width sees half the volume of one beside it: 1/2 of the union is shared."""
    frusta = looking(np.zeros((2, 3)), np.zeros(2))
    narrow = Frusta(
        centres=frusta.centres,
        rotations=frusta.rotations,
        tan_x=np.array([0.5, 0.25]),
        tan_y=frusta.tan_y,
    )
    assert weight(narrow, 0, 1) == pytest.approx(0.5, abs=0.1)


def test_many_views_compare_near_ones_only(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(40.0)
    frusta = looking(np.stack([x, 0 * x, 0 * x], axis=1), np.full(40, np.pi / 2))
    exact = frustum_graph(frusta, top_k=4)
    monkeypatch.setattr(module, "CANDIDATES", 10)
    monkeypatch.setattr(module, "CHUNK", 7)
    near = frustum_graph(frusta, top_k=4)
    assert np.array_equal(near.neighbours, exact.neighbours)
    assert np.array_equal(near.weights, exact.weights)


def plain_ratio(frusta: Frusta, one: int, two: int) -> float:
    """Volume ratio of two frusta, sample by sample; twin of `frustum_graph`'s estimate."""
    near, far = frusta.depth_range
    across, down, deep = module.SAMPLES

    def share(mine: int, other: int) -> float:
        hits = []
        for i, j, k in product(range(across), range(down), range(deep)):
            depth = (near**3 + (k + 0.5) / deep * (far**3 - near**3)) ** (1 / 3)
            x = (2 * (i + 0.5) / across - 1) * depth * frusta.tan_x[mine]
            y = (2 * (j + 0.5) / down - 1) * depth * frusta.tan_y[mine]
            world = frusta.rotations[mine].T @ (x, y, depth) + frusta.centres[mine]
            x, y, depth = frusta.rotations[other] @ (world - frusta.centres[other])
            wide, high = depth * frusta.tan_x[other], depth * frusta.tan_y[other]
            hits.append(near <= depth <= far and abs(x) <= wide and abs(y) <= high)
        return sum(hits) / len(hits)

    volumes = [frusta.tan_x[view] * frusta.tan_y[view] for view in (one, two)]
    both = (volumes[0] * share(one, two) + volumes[1] * share(two, one)) / 2
    return float(both / (sum(volumes) - both))


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.integers(2, 5), st.integers(0, 999))
def test_equals_sample_by_sample(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    half = rng.uniform(0.2, 1.2, (2, count))
    rotations = np.stack([np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(count)])
    frusta = Frusta(centres=rng.normal(size=(count, 3)), rotations=rotations, tan_x=half[0], tan_y=half[1])
    for one, two in combinations(range(count), 2):
        assert weight(frusta, one, two) == pytest.approx(plain_ratio(frusta, one, two), abs=1e-6)


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(InputError, match="Frusta need centres"):
        Frusta(centres=np.zeros((2, 3)), rotations=np.zeros((2, 3, 3)), tan_x=np.ones(2), tan_y=np.ones(3))
