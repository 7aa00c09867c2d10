"""Frustum overlap, the coupling of captures without tracks."""

from __future__ import annotations

import numpy as np
import pytest
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


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(InputError, match="Frusta need centres"):
        Frusta(centres=np.zeros((2, 3)), rotations=np.zeros((2, 3, 3)), tan_x=np.ones(2), tan_y=np.ones(3))
