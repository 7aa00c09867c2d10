"""The inflated scope of surfels contains every row that can be drawn after the outstanding updates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.inflation import Inflation
from pipelines.camera import Camera
from pipelines.render.surfels import SurfelRenderer
from pipelines.render.surfels.cull import cull_many, cull_packed
from tests.render.scenes import make_camera
from tests.render.surfel_dense import make_surfels

RENDERER = SurfelRenderer()
ROWS = 1500


def cull(geometry: torch.Tensor, camera: Camera, inflation: Inflation) -> np.ndarray:
    return cull_many(geometry, [camera], inflation)[0]


def cloud(seed: int, reach: float = 4.0) -> torch.Tensor:
    """Surfels in a cube around the origin, cameras inside; sizes from far below a pixel to beyond the camera plane."""
    geometry, _ = make_surfels(ROWS, make_camera(seed=seed), seed=seed, aniso=1.0)
    rng = np.random.default_rng(seed)
    geometry[:, :3] = torch.tensor(rng.uniform(-reach, reach, (ROWS, 3)))
    geometry[:, 3:5] = torch.tensor(-3.5 + rng.normal(size=(ROWS, 1)) + rng.normal(size=(ROWS, 2)))
    return geometry


def bounds(rng: np.random.Generator, step: float) -> tuple[Inflation, np.ndarray, np.ndarray]:
    """Two classes of rows; the per-component bound of centres and of log-scales for each row."""
    moves, grows = np.array([0.0, step]), np.array([0.0, 0.3 * step])
    level = rng.integers(0, 2, ROWS).astype(np.uint8)
    inflation = Inflation(level=level, shift=np.sqrt(3.0) * moves * 1.0001, growth=grows * 1.0001)
    return inflation, moves[level], grows[level]


def move(
    geometry: torch.Tensor, camera: Camera, moves: np.ndarray, grows: np.ndarray, rng: np.random.Generator
) -> torch.Tensor:
    """Adversarial update at the full bound: towards the optical axis or any way, larger, turned, opaque."""
    xyz = geometry[:, :3].double().numpy()
    towards = np.sign(camera.centre + 2.0 * camera.rotation[2] - xyz)
    random = rng.choice([-1.0, 1.0], size=xyz.shape)
    signs = np.where(rng.random((len(xyz), 1)) < 0.7, towards, random)
    moved = geometry.clone()
    moved[:, :3] = torch.tensor(xyz + signs * moves[:, None])
    signs = np.where(rng.random((len(xyz), 2)) < 0.8, 1.0, -1.0)
    moved[:, 3:5] += torch.tensor(signs * grows[:, None])
    moved[:, 5:9] = torch.tensor(rng.normal(size=(len(xyz), 4)))
    moved[:, 9] = torch.tensor(rng.choice([-3.0, 1.0, 20.0], size=len(xyz)))
    return moved


def touched(geometry: torch.Tensor, camera: Camera) -> np.ndarray:
    return (RENDERER.project(geometry, camera).radii > 0).numpy()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    step=st.sampled_from([1e-6, 1e-4, 1e-3, 1e-2, 0.1, 0.5, 3.0]),
    reach=st.sampled_from([0.3, 4.0, 50.0]),
    fov=st.sampled_from([20.0, 60.0, 110.0]),
)
def test_no_row_is_missed(seed: int, step: float, reach: float, fov: float) -> None:
    rng = np.random.default_rng(seed)
    camera = make_camera(70, 45, fov=fov, seed=seed, near_origin=seed % 3 > 0)
    geometry = cloud(seed, reach)
    inflation, moves, grows = bounds(rng, step)
    scope = cull(geometry, camera, inflation)
    for _ in range(2):
        assert not (touched(move(geometry, camera, moves, grows, rng), camera) & ~scope).any()
    assert not (touched(geometry, camera) & ~cull(geometry, camera, Inflation.none(ROWS))).any()


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_less_inflation_misses_rows(share: float) -> None:
    """The property test can fail."""
    missed = 0
    for seed in range(10):
        rng, camera, geometry = np.random.default_rng(seed), make_camera(70, 45, seed=seed), cloud(seed)
        inflation, moves, grows = bounds(rng, 0.3)
        less = replace(inflation, shift=share * inflation.shift, growth=share * inflation.growth)
        scope = cull(geometry, camera, less)
        missed += int((touched(move(geometry, camera, moves, grows, rng), camera) & ~scope).sum())
    assert missed > 0


@pytest.mark.parametrize("seed", range(4))
def test_scope_is_tight(seed: int) -> None:
    """With late learning rates, at most 15 % more rows than are drawn when all surfels are opaque and face the view."""
    camera, geometry = make_camera(240, 160, seed=seed), cloud(seed)
    geometry[:, 3:5] = 0.5 * geometry[:, 3:5] - 3.0
    geometry[:, 9] = 20.0
    small = Inflation(level=np.zeros(ROWS, np.uint8), shift=np.array([1e-4]), growth=np.array([1e-3]))
    drawn, scope = touched(geometry, camera).sum(), cull(geometry, camera, small).sum()
    assert 30 < drawn <= scope <= 1.15 * drawn


def test_blocks_change_no_mask() -> None:
    for seed, step in enumerate((0.0, 1e-3, 0.1, 1.0)):
        rng, geometry = np.random.default_rng(seed), cloud(seed)
        inflation, _, _ = bounds(rng, step)
        cameras = [make_camera(70, 45, seed=k, near_origin=k % 2 == 0) for k in range(6)]
        masks = cull_many(geometry, cameras, inflation)
        for order in (rng.permutation(ROWS), np.argsort(geometry[:, 0].numpy())):
            moved = replace(inflation, level=inflation.level[order])
            assert np.array_equal(cull_many(geometry[order], cameras, moved), masks[:, order])
        table = torch.empty(ROWS, 58).normal_()
        table[:, :10] = geometry
        assert np.array_equal(cull_many(table[:, :10], cameras, inflation), masks)


def test_neither_nan_nor_infinity_spoils_a_neighbour() -> None:
    camera, geometry = make_camera(120, 80), cloud(0)
    none = Inflation.none(ROWS)
    before = cull(geometry, camera, none)
    geometry[::9, 1] = float("nan")
    geometry[4::9, 3] = float("nan")
    geometry[5::9, 2] = float("inf")
    kept = geometry.isfinite().all(1).numpy()
    assert np.array_equal(cull(geometry, camera, none)[kept], before[kept])
    assert not touched(geometry, camera)[~kept].any()


def test_misfits_are_errors() -> None:
    with pytest.raises(ValueError, match=r"expected \[N, 10\]"):
        cull_packed(np.zeros((3, 11), np.float32), [make_camera()], Inflation.none(3))
