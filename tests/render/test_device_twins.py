"""The torch twins of what kernels do on the host: scopes to the bit, the loss to float32, statistics to the bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.inflation import Inflation
from pipelines.reference.statistics import DensificationStatistics, DeviceStatistics
from pipelines.render import device_cull, device_loss, ssim
from pipelines.render.cull import cull_packed, pack_cameras
from pipelines.render.surfels import cull as surfel_cull
from pipelines.render.surfels import device_cull as device_surfel_cull
from pipelines.render.surfels import device_regularise, regularise
from pipelines.render.surfels.protocol import Weights
from tests.odin.sync import NoHostCopy, NoHostSync
from tests.render.scenes import make_camera
from tests.render.surfel_dense import make_surfels
from tests.render.test_cull import ROWS, bounds, cloud
from tests.render.test_ssim import pair
from tests.render.test_surfel_cull import cloud as surfel_cloud
from tests.render.test_surfel_regularise import render as render_surfels

CPU = torch.device("cpu")


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 500), step=st.sampled_from([0.0, 0.01, 0.3]), rows=st.sampled_from([1, 63, 64, 65, ROWS]))
def test_scopes_have_the_bits_of_the_kernels(seed: int, step: float, rows: int) -> None:
    rng = np.random.default_rng(seed)
    geometry, (inflation, _, _) = cloud(seed)[:rows].contiguous(), bounds(rng, step)
    geometry[rng.integers(0, rows)] = float("nan") if seed % 3 == 0 else 1e30
    inflation = Inflation(level=inflation.level[:rows], shift=inflation.shift, growth=inflation.growth)
    cameras = [make_camera(seed=seed + k, fov=30.0 + 40.0 * k) for k in range(3)]
    with NoHostSync():
        bits = device_cull.cull_packed(geometry, cameras, inflation)
    assert np.array_equal(bits.numpy().view(np.uint64), cull_packed(geometry, cameras, inflation))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 500), step=st.sampled_from([0.0, 0.01, 0.3]), rows=st.sampled_from([1, 63, 64, 65, ROWS]))
def test_scopes_of_surfels_have_the_bits_of_the_kernels(seed: int, step: float, rows: int) -> None:
    rng = np.random.default_rng(seed)
    geometry, (inflation, _, _) = surfel_cloud(seed)[:rows].contiguous(), bounds(rng, step)
    geometry[rng.integers(0, rows)] = float("nan") if seed % 3 == 0 else 1e30
    inflation = Inflation(level=inflation.level[:rows], shift=inflation.shift, growth=inflation.growth)
    cameras = [make_camera(seed=seed + k, fov=30.0 + 40.0 * k) for k in range(3)]
    with NoHostSync(), NoHostCopy():
        bits = device_surfel_cull.cull_packed(geometry, cameras, inflation)
    expected = surfel_cull.cull_packed(geometry, cameras, inflation)
    assert np.array_equal(bits.numpy().view(np.uint64), expected)
    assert np.array_equal(surfel_cull.cull_packed(geometry, pack_cameras(cameras), inflation), expected)


@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("count", [400, 12])
def test_geometric_terms_are_those_of_the_kernels(ratio: float, count: int) -> None:
    """Also where most pixels see nothing and have neither depth nor direction."""
    camera = make_camera(50, 37)
    blended = render_surfels(camera, *make_surfels(count, camera, pixels=8.0))
    weights = Weights(normal=0.05, distortion=10.0, depth_ratio=ratio)
    with NoHostSync(), NoHostCopy():
        value, gradient = device_regularise.regularise(blended, camera, weights)
    expected, exact = regularise.regularise(blended, camera, weights)
    assert float(value) == pytest.approx(expected, rel=1e-6)
    assert torch.isfinite(gradient).all()
    assert float((gradient - exact).norm() / exact.norm()) < 1e-5


@pytest.mark.parametrize("kind", ["noise", "flat", "ramp", "black"])
def test_the_loss_is_that_of_the_kernels(kind: str) -> None:
    image, photo = pair(kind, 20, 31)
    with NoHostSync():
        loss, gradient = device_loss.l1_dssim(image, photo)
    expected, exact = ssim.l1_dssim(image, photo)
    assert float(loss) == pytest.approx(expected, rel=1e-4)
    assert float((gradient - exact).norm() / exact.norm()) < 2e-3


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 500))
def test_statistics_have_the_bits_of_the_hosts(seed: int) -> None:
    rng, rows = np.random.default_rng(seed), 50
    host, device = DensificationStatistics(rows), DeviceStatistics(rows, CPU)
    for _ in range(3):
        seen = np.sort(rng.permutation(rows)[:30]).astype(np.int32)
        means2d = torch.from_numpy((rng.normal(size=(30, 2)) * 10.0 ** rng.uniform(-9, 4)).astype(np.float32))
        visible, size = rng.random(30) < 0.6, (1297, 840)
        host.observe(seen, means2d, visible, size)
        with NoHostSync():
            device.observe(torch.from_numpy(seen).long(), means2d, torch.from_numpy(visible), size)
    assert np.array_equal(host.sums(), device.sums())
