"""The tiled blend against a dense float64 compositor that is handed the renderer's own float32 inputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from pipelines.camera import Camera
from pipelines.render.cpu import CpuRenderer
from pipelines.render.protocol import BlendGradients, Projection
from tests.render import dense
from tests.render.scenes import BACKGROUND, make_camera, make_rows

RENDERER = CpuRenderer()
KINDS = ("means2d", "conics", "rgb", "opacities")


@dataclass(frozen=True)
class Comparison:
    """Both renderings of one scene; gradients are for one random dL/dimage, zero at unsure pixels."""

    image: torch.Tensor
    dense_image: torch.Tensor
    alpha: torch.Tensor
    dense_alpha: torch.Tensor
    gradients: BlendGradients
    dense_gradients: dict[str, torch.Tensor]
    reached: torch.Tensor
    sure: torch.Tensor


def depth_order(projection: Projection) -> torch.Tensor:
    """Drawn rows by (depth, row)."""
    rows = torch.nonzero(projection.radii > 0)[:, 0]
    return rows[torch.argsort(projection.depths[rows], stable=True)]


def compare(geometry: torch.Tensor, sh: torch.Tensor, camera: Camera, degree: int = 3) -> Comparison:
    projection = RENDERER.project(geometry, camera)
    bins = RENDERER.bin(projection, camera)
    rgb = RENDERER.colour(geometry, sh, camera, degree)
    blended = RENDERER.blend(projection, bins, rgb, camera, BACKGROUND)
    leaves = {
        "means2d": projection.means2d,
        "conics": projection.conics,
        "rgb": rgb,
        "opacities": projection.opacities,
    }
    leaves = {name: value.detach().double().requires_grad_() for name, value in leaves.items()}
    image, alpha, unsure, reached = dense.composite(
        *leaves.values(), depth_order(projection), camera, BACKGROUND.double()
    )
    generator = torch.Generator().manual_seed(1)
    upstream = torch.randn(camera.height, camera.width, 3, generator=generator) * ~unsure[..., None]
    gradients = RENDERER.blend_backward(projection, bins, rgb, blended, upstream)
    (image * upstream.double()).sum().backward()
    return Comparison(
        image=blended.image,
        dense_image=image.detach(),
        alpha=blended.alpha,
        dense_alpha=alpha.detach(),
        gradients=gradients,
        dense_gradients={n: torch.zeros_like(v) if v.grad is None else v.grad for n, v in leaves.items()},
        reached=reached,
        sure=~unsure,
    )


def assert_close(result: Comparison, image: float = 1e-6, gradient: float = 5e-5) -> None:
    assert (~result.sure).float().mean() < 0.01
    error = (result.image.double() - result.dense_image)[result.sure].abs()
    assert error.max() <= image
    assert (result.alpha.double() - result.dense_alpha)[result.sure].abs().max() <= image
    for kind in KINDS:
        ours, theirs = getattr(result.gradients, kind).double(), result.dense_gradients[kind]
        assert (ours - theirs).norm() <= gradient * theirs.norm(), kind


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_every_degree(degree: int) -> None:
    camera = make_camera(64, 48)
    assert_close(compare(*make_rows(300, camera, seed=degree), camera, degree))


@pytest.mark.parametrize(("width", "height"), [(64, 48), (70, 45), (17, 33), (5, 3), (16, 16)])
@pytest.mark.parametrize("pixels", [0.5, 3.0, 12.0])
def test_sizes(width: int, height: int, pixels: float) -> None:
    camera = make_camera(width, height, seed=width)
    assert_close(compare(*make_rows(200, camera, seed=height, pixels=pixels, behind=0.2), camera))


def test_thin_rows() -> None:
    """Needles: the conic's condition number reaches thousands."""
    camera = make_camera(70, 45)
    assert_close(compare(*make_rows(150, camera, pixels=4.0, aniso=2.0), camera))


def test_opaque_rows_stop_pixels_early() -> None:
    """Lists longer than what is processed, alpha clamped at 0.99."""
    camera = make_camera(64, 48)
    geometry, sh = make_rows(1500, camera, pixels=8.0)
    geometry[:, 10] = 3.0 + 2.0 * geometry[:, 10].abs()
    result = compare(geometry, sh, camera)
    assert_close(result)
    assert result.gradients.contributed.sum() < 700


def test_contributed_is_what_reached_a_live_pixel() -> None:
    camera = make_camera(64, 48)
    result = compare(*make_rows(800, camera, pixels=6.0), camera)
    sure = result.sure.all()
    wrong = (result.gradients.contributed != result.reached).sum()
    assert wrong == 0 if sure else wrong <= 2
    assert 0 < result.reached.sum() < 800


def test_rows_that_did_not_contribute_have_zero_gradients() -> None:
    camera = make_camera(64, 48)
    gradients = compare(*make_rows(800, camera, pixels=6.0, behind=0.3), camera).gradients
    for kind in KINDS:
        assert not getattr(gradients, kind)[~gradients.contributed].any()


@pytest.mark.parametrize("rows", [0, 5])
def test_nothing_visible_is_background(rows: int) -> None:
    camera = make_camera(33, 20)
    geometry, sh = make_rows(rows, camera, behind=1.0)
    result = compare(geometry, sh, camera)
    assert torch.equal(result.image, BACKGROUND.expand(20, 33, 3))
    assert not result.alpha.any() and not result.gradients.contributed.any()
    assert result.gradients.means2d.shape == (rows, 2)


def test_single_row_at_the_centre() -> None:
    camera = make_camera(21, 19)
    geometry, sh = make_rows(1, camera)
    geometry[0, :3] = torch.tensor(camera.centre + 2.0 * camera.rotation[2])
    geometry[0, 10] = 1.0
    result = compare(geometry, sh, camera)
    assert_close(result)
    assert result.gradients.contributed.all()


def test_fragments_count_evaluated_pairs() -> None:
    """At least the pairs that blend, at most the boxes; deterministic."""
    camera = make_camera(64, 48)
    geometry, sh = make_rows(100, camera)
    projection = RENDERER.project(geometry, camera)
    bins = RENDERER.bin(projection, camera)
    rgb = RENDERER.colour(geometry, sh, camera, 0)
    counts = [RENDERER.blend(projection, bins, rgb, camera, BACKGROUND).fragments for _ in range(2)]
    assert counts[0] == counts[1]
    assert 0 < counts[0] <= 256 * bins.entries


def test_lists_are_in_depth_then_row_order() -> None:
    camera = make_camera(64, 48)
    geometry, _ = make_rows(400, camera)
    geometry[200:] = geometry[:200]
    projection = RENDERER.project(geometry, camera)
    data = RENDERER.bin(projection, camera).data
    rank = np.empty(400, np.int64)
    order = depth_order(projection).numpy()
    rank[order] = np.arange(len(order))
    assert set(data.rows) == set(order)
    for start, end in zip(data.starts[:-1], data.starts[1:], strict=True):
        assert (np.diff(rank[data.rows[start:end]]) > 0).all()
