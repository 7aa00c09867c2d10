"""The whole chain, parameters to loss, against float64 autograd through the dense references."""

from __future__ import annotations

import pytest
import torch

from pipelines.camera import Camera
from pipelines.render.cpu import CpuRenderer, warm_up
from pipelines.render.ssim import l1_dssim
from tests.render import dense
from tests.render.scenes import BACKGROUND, make_camera, make_rows
from tests.render.test_ssim import reference

GROUPS = {"xyz": (0, 3), "scale": (3, 6), "rotation": (6, 10), "opacity": (10, 11)}


def ours(geometry: torch.Tensor, sh: torch.Tensor, camera: Camera, target: torch.Tensor) -> tuple[float, ...]:
    """Loss and gradients [M, 11], [M, 48] through the renderer."""
    renderer = CpuRenderer()
    geometry, sh = geometry.clone().requires_grad_(), sh.clone().requires_grad_()
    projection = renderer.project(geometry, camera)
    bins = renderer.bin(projection, camera)
    rgb = renderer.colour(geometry, sh, camera, 3)
    blended = renderer.blend(projection, bins, rgb, camera, BACKGROUND)
    loss, grad_image = l1_dssim(blended.image, target)
    grads = renderer.blend_backward(projection, bins, rgb, blended, grad_image)
    torch.autograd.backward([rgb], [grads.rgb])
    torch.autograd.backward(
        [projection.means2d, projection.conics, projection.opacities],
        [grads.means2d, grads.conics, grads.opacities],
    )
    return loss, geometry.grad, sh.grad


def theirs(geometry: torch.Tensor, sh: torch.Tensor, camera: Camera, target: torch.Tensor) -> tuple[float, ...]:
    """The same in float64."""
    geometry, sh = geometry.double().requires_grad_(), sh.double().requires_grad_()
    means, conics, opacities, depths, _ = dense.project(geometry, camera)
    rgb = dense.colour(geometry, sh, camera, 3)
    rows = torch.nonzero(depths > 0.2)[:, 0]
    order = rows[torch.argsort(depths[rows], stable=True)]
    image, _, _, _ = dense.composite(means, conics, rgb, opacities, order, camera, BACKGROUND)
    loss, _, grad_image = reference(image.detach(), target, 0.2)
    image.backward(grad_image)
    return loss, geometry.grad, sh.grad


@pytest.mark.parametrize("seed", range(4))
def test_gradients_of_the_loss(seed: int) -> None:
    camera = make_camera(24, 24, seed=seed)
    geometry, sh = make_rows(30, camera, seed=seed, behind=0.1)
    target = torch.rand(24, 24, 3, generator=torch.Generator().manual_seed(seed))
    loss, geometric, colours = ours(geometry, sh, camera, target)
    expected, expected_geometric, expected_colours = theirs(geometry, sh, camera, target)
    assert abs(loss - expected) < 1e-5
    for first, last in GROUPS.values():
        want = expected_geometric[:, first:last]
        assert (geometric[:, first:last] - want).norm() <= 1e-3 * want.norm()
    assert (colours - expected_colours).norm() <= 1e-3 * expected_colours.norm()


def test_a_step_against_the_gradient_lowers_the_loss() -> None:
    camera = make_camera(24, 24)
    geometry, sh = make_rows(30, camera)
    target = torch.full((24, 24, 3), 0.6)
    loss, geometric, colours = ours(geometry, sh, camera, target)
    step = 1e-4 / float((geometric.square().sum() + colours.square().sum()).sqrt())
    lower, _, _ = ours(geometry - step * geometric, sh - step * colours, camera, target)
    assert lower < loss


def test_warm_up_runs() -> None:
    warm_up()
