"""The inflated scope contains every row that can be drawn after the outstanding updates, and little more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from odin.bitmap import pack, words
from odin.inflation import Inflation
from pipelines.camera import Camera
from pipelines.render import projection
from pipelines.render.cpu import CpuRenderer
from pipelines.render.cull import cull, cull_many, cull_packed
from pipelines.render.cull_kernels import may_touch
from pipelines.render.vectors import exp, log_scales, vec
from pipelines.render.view import load_view, pack_camera
from tests.render.scenes import make_camera, make_rows

RENDERER = CpuRenderer()
ROWS = 1500


def cloud(seed: int, reach: float = 4.0) -> torch.Tensor:
    """Rows in a cube around the origin, cameras inside; sizes from far below a pixel to most of the view."""
    geometry, _ = make_rows(ROWS, make_camera(seed=seed), seed=seed, aniso=1.0)
    rng = np.random.default_rng(seed)
    geometry[:, :3] = torch.tensor(rng.uniform(-reach, reach, (ROWS, 3)))
    geometry[:, 3:6] = torch.tensor(-3.5 + rng.normal(size=(ROWS, 1)) + rng.normal(size=(ROWS, 3)))
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
    """Adversarial update at the full bound: towards the optical axis or any way, larger, rotated, opaque."""
    xyz = geometry[:, :3].double().numpy()
    ahead = camera.centre + 2.0 * camera.rotation[2]
    towards = np.sign(ahead - xyz)
    random = rng.choice([-1.0, 1.0], size=xyz.shape)
    signs = np.where(rng.random((len(xyz), 1)) < 0.7, towards, random)
    moved = geometry.clone()
    moved[:, :3] = torch.tensor(xyz + signs * moves[:, None])
    signs = np.where(rng.random((len(xyz), 3)) < 0.8, 1.0, -1.0)
    moved[:, 3:6] += torch.tensor(signs * grows[:, None])
    moved[:, 6:10] = torch.tensor(rng.normal(size=(len(xyz), 4)))
    moved[:, 10] = torch.tensor(rng.choice([-3.0, 1.0, 20.0], size=len(xyz)))
    return moved


def touched(geometry: torch.Tensor, camera: Camera) -> np.ndarray:
    """Rows that either projection would draw."""
    drawn = (RENDERER.project(geometry, camera).radii > 0) | (projection.project(geometry, camera).radii > 0)
    return drawn.numpy()


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


@njit(error_model="numpy", cache=True)
def every_row(geometry, level, shift, growth, views, masks):
    for v in range(len(views)):
        camera = load_view(views[v])
        for i in range(len(geometry)):
            scale2 = exp(2.0 * (max(log_scales(geometry, i)) + growth[level[i]]))
            masks[v, i] = may_touch(vec(geometry, i), shift[level[i]], scale2, camera)


def cull_reference(geometry: torch.Tensor, cameras: list[Camera], inflation: Inflation) -> np.ndarray:
    """The predicate row by row: no blocks, no words."""
    masks = np.zeros((len(cameras), len(geometry)), np.bool_)
    views = np.stack([pack_camera(camera) for camera in cameras])
    every_row(geometry.numpy(), inflation.level, inflation.shift, inflation.growth, views, masks)
    return masks


@settings(max_examples=80, deadline=None)
@given(
    rows=st.one_of(st.sampled_from([0, 1, 63, 64, 65, 127, 128, 129]), st.integers(0, ROWS)),
    seed=st.integers(0, 10_000),
    step=st.sampled_from([0.0, 1e-3, 0.1, 1.0]),
    order=st.sampled_from(["random", "along x"]),
)
def test_bitmaps_are_the_predicate_of_every_row(rows: int, seed: int, step: float, order: str) -> None:
    rng, geometry = np.random.default_rng(seed), cloud(seed)
    if order == "along x":  # neighbours in space: whole blocks are rejected
        geometry = geometry[geometry[:, 0].argsort()]
    inflation, _, _ = bounds(rng, step)
    geometry, inflation = geometry[:rows].clone(), replace(inflation, level=inflation.level[:rows])
    cameras = [make_camera(70, 45, seed=seed + k, near_origin=k % 2 == 0) for k in range(3)]
    bits = cull_packed(geometry, cameras, inflation)
    assert bits.dtype == np.uint64 and bits.shape == (3, words(rows))
    expected = cull_reference(geometry, cameras, inflation)
    assert np.array_equal(bits, pack(expected))
    assert np.array_equal(cull_many(geometry, cameras, inflation), expected)
    table = torch.empty(rows, 59).normal_()
    table[:, :11] = geometry  # a slice of a wider table is read in place
    assert np.array_equal(cull_packed(table[:, :11], cameras, inflation), bits)


def test_without_inflation_rows_are_missed() -> None:
    """The property test can fail."""
    missed = 0
    for seed in range(5):
        rng, camera, geometry = np.random.default_rng(seed), make_camera(70, 45, seed=seed), cloud(seed)
        _, moves, grows = bounds(rng, 0.3)
        scope = cull(geometry, camera, Inflation.none(ROWS))
        missed += int((touched(move(geometry, camera, moves, grows, rng), camera) & ~scope).sum())
    assert missed > 20


def test_half_the_inflation_misses_rows() -> None:
    missed = 0
    for seed in range(10):
        rng, camera, geometry = np.random.default_rng(seed), make_camera(70, 45, seed=seed), cloud(seed)
        inflation, moves, grows = bounds(rng, 0.3)
        half = replace(inflation, shift=0.5 * inflation.shift, growth=0.5 * inflation.growth)
        scope = cull(geometry, camera, half)
        missed += int((touched(move(geometry, camera, moves, grows, rng), camera) & ~scope).sum())
    assert missed > 0


@pytest.mark.parametrize("seed", range(4))
def test_scope_is_tight(seed: int) -> None:
    """On an ordinary scene and with late learning rates, at most 10 % more rows than are drawn."""
    camera = make_camera(240, 160, seed=seed)
    geometry = cloud(seed)
    geometry[:, 3:6] = 0.5 * geometry[:, 3:6] - 3.0
    geometry[:, 10] = geometry[:, 10].abs()
    small = Inflation(level=np.zeros(ROWS, np.uint8), shift=np.array([1e-4]), growth=np.array([1e-3]))
    drawn, scope = touched(geometry, camera).sum(), cull(geometry, camera, small).sum()
    assert 30 < drawn <= scope <= 1.1 * drawn


def test_scope_is_that_of_opaque_spheres() -> None:
    """Without inflation nothing is given away beyond rotation and opacity."""
    for seed in range(6):
        camera, geometry = make_camera(120, 80, seed=seed), cloud(seed)
        geometry[:, 3:6] = geometry[:, 3:6].amax(1, keepdim=True)
        geometry[:, 10] = 20.0
        drawn, scope = touched(geometry, camera).sum(), cull(geometry, camera, Inflation.none(ROWS)).sum()
        assert drawn <= scope <= 1.01 * drawn


def test_blocks_change_no_mask() -> None:
    """Rejecting 64 rows at once is the same as rejecting each: another order, other blocks, the same rows."""
    for seed, step in enumerate((0.0, 1e-3, 0.1, 1.0)):
        rng, geometry = np.random.default_rng(seed), cloud(seed)
        inflation, _, _ = bounds(rng, step)
        cameras = [make_camera(70, 45, seed=k, near_origin=k % 2 == 0) for k in range(6)]
        masks = cull_many(geometry, cameras, inflation)
        assert masks.shape == (6, ROWS)
        for order in (rng.permutation(ROWS), np.argsort(geometry[:, 0].numpy())):
            moved = replace(inflation, level=inflation.level[order])
            assert np.array_equal(cull_many(geometry[order], cameras, moved), masks[:, order])
        for camera, mask in zip(cameras, masks, strict=True):
            assert np.array_equal(cull(geometry.numpy(), camera, inflation), mask)


def test_neither_nan_nor_infinity_spoils_a_neighbour() -> None:
    camera, geometry = make_camera(120, 80), cloud(0)
    none = Inflation.none(ROWS)
    before = cull(geometry, camera, none)
    geometry[::9, 1] = float("nan")
    geometry[4::9, 3] = float("nan")
    geometry[5::9, 2] = float("inf")
    kept = geometry.isfinite().all(1).numpy()
    assert np.array_equal(cull(geometry, camera, none)[kept], before[kept])


def test_no_rows_and_no_views() -> None:
    empty = np.empty((0, 11), np.float32)
    assert cull(empty, make_camera(), Inflation.none(0)).shape == (0,)
    assert cull_many(cloud(0), [], Inflation.none(ROWS)).shape == (0, ROWS)
    assert cull_packed(empty, [make_camera()], Inflation.none(0)).shape == (1, 0)
    assert cull_packed(cloud(0), [], Inflation.none(ROWS)).shape == (0, words(ROWS))


def test_misfits_are_errors() -> None:
    geometry, camera = cloud(0), make_camera()
    with pytest.raises(ValueError, match="expected"):
        cull(geometry[:, :3], camera, Inflation.none(ROWS))
    with pytest.raises(ValueError, match="rows"):
        cull(geometry, camera, Inflation.none(ROWS - 1))
    with pytest.raises(ValueError, match="class 3"):
        cull(geometry, camera, replace(Inflation.none(ROWS), level=np.full(ROWS, 3, np.uint8)))
