"""Both projections, fused and plain, against a float64 matrix form; and what becomes of rows that cannot be drawn."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from pipelines.camera import Camera
from pipelines.render import projection as plain
from pipelines.render.cpu import CpuRenderer
from pipelines.render.protocol import Projection
from tests.render import dense
from tests.render.scenes import make_camera, make_rows

Project = Callable[[torch.Tensor, Camera], Projection]
# Fused kernels round once; the plain ops compute in float32, so their error grows with the conic's condition.
BOTH = pytest.mark.parametrize(("project", "unit"), [(CpuRenderer().project, 2e-7), (plain.project, 4e-6)])


def scene(seed: int = 0) -> tuple[torch.Tensor, Camera]:
    """Needles and discs, up to 1.6 times beyond the image's edge, where the Jacobian is clamped."""
    camera = make_camera(70, 45, seed=seed)
    geometry, _ = make_rows(500, camera, seed=seed, pixels=5.0, aniso=1.5)
    wide, _ = make_rows(500, make_camera(70, 45, fov=85.0, seed=seed), seed=seed + 1, pixels=5.0, aniso=1.5)
    return torch.cat([geometry, wide]), camera


def condition(covariance: torch.Tensor) -> torch.Tensor:
    """Condition number of each 2D covariance, [M]."""
    values = torch.linalg.eigvalsh(covariance.detach())
    return values[:, 1] / values[:, 0]


@BOTH
def test_values(project: Project, unit: float) -> None:
    geometry, camera = scene()
    ours = project(geometry, camera)
    means, conics, opacities, depths, covariance = dense.project(geometry.double(), camera)
    assert ours.depths.dtype == ours.conics.dtype == torch.float32
    assert ((ours.means2d - means).abs() <= unit * (means.abs() + 100.0)).all()
    assert ((ours.opacities - opacities).abs() <= 2e-7).all()
    assert ((ours.depths - depths).abs() <= unit * 10.0).all()
    scale = conics.abs().amax(1) * condition(covariance).sqrt()
    assert ((ours.conics - conics).abs().amax(1) <= unit * scale).all()
    assert condition(covariance).max() > 1e3


@BOTH
def test_gradients(project: Project, unit: float) -> None:
    geometry, camera = scene(3)
    ours, theirs = geometry.clone().requires_grad_(), geometry.double().requires_grad_()
    generator = torch.Generator().manual_seed(0)
    projection = project(ours, camera)
    means, conics, opacities, _, covariance = dense.project(theirs, camera)
    upstream = [torch.randn(x.shape, generator=generator) for x in (means, conics, opacities)]
    outputs = [projection.means2d, projection.conics, projection.opacities]
    torch.autograd.backward(outputs, upstream)
    torch.autograd.backward([means, conics, opacities], [x.double() for x in upstream])
    assert ours.grad is not None and theirs.grad is not None
    for columns in (slice(0, 3), slice(3, 6), slice(6, 10), slice(10, 11)):
        error = (ours.grad - theirs.grad)[:, columns].norm(dim=1)
        scale = theirs.grad[:, columns].norm(dim=1) + 1e-3
        assert (error <= unit * 10.0 * scale * condition(covariance).sqrt()).all(), columns


@BOTH
def test_extents_are_where_alpha_falls_to_one_255th(project: Project, unit: float) -> None:
    geometry, camera = scene(1)
    ours = project(geometry, camera)
    _, _, opacities, _, covariance = dense.project(geometry.double(), camera)
    reach = 2.0 * torch.log(255.0 * opacities)
    exact = torch.sqrt(reach[:, None] * torch.diagonal(covariance, dim1=1, dim2=2))
    drawn = ours.radii > 0
    slack = 2e-3 + unit * exact * condition(covariance)[:, None]
    assert ((ours.extents - exact).abs() <= slack)[drawn].all()
    assert torch.equal(ours.radii[drawn], torch.ceil(ours.extents[drawn].amax(1)).int())
    assert (ours.extents[~drawn] < 0.0).all() and (~drawn).any()


@BOTH
def test_radius_is_zero_exactly_off_the_tile_grid(project: Project, unit: float) -> None:
    """The grid of a 70×45 image is 80×48."""
    camera = make_camera(70, 45, seed=2)
    geometry, _ = make_rows(1, camera)
    for pixel, drawn in ((78.0, True), (81.0, True), (95.0, False), (-1.5, True), (-15.0, False)):
        local = torch.tensor([(pixel - camera.cx) / camera.fx, 0.0, 1.0], dtype=torch.float64)
        world = (local.numpy() - camera.translation) @ camera.rotation
        geometry[0, :3], geometry[0, 3:6] = torch.tensor(world), math.log(0.5 / camera.fx)
        geometry[0, 10] = 4.0
        assert bool(project(geometry, camera).radii[0] > 0) is drawn, pixel


@BOTH
def test_transparent_rows_are_culled(project: Project, unit: float) -> None:
    camera = make_camera()
    geometry, _ = make_rows(50, camera)
    geometry[:, 10] = torch.logit(torch.tensor(1.0 / 255.0)) - 1e-3
    assert not project(geometry, camera).radii.any()


@BOTH
def test_rows_behind_the_near_plane_give_zero_gradients(project: Project, unit: float) -> None:
    camera = make_camera(seed=4)
    geometry, _ = make_rows(40, camera, behind=0.5)
    geometry[0, :3] = torch.tensor(camera.centre)
    geometry[1, :3] = torch.tensor(camera.centre + 0.2 * (1.0 - 1e-6) * camera.rotation[2])
    geometry[2, 3:6] = 8.0
    geometry[3, 6:10] = 0.0
    geometry.requires_grad_()
    ours = project(geometry, camera)
    (ours.means2d.sum() + ours.conics.sum() + ours.opacities.sum()).backward()
    assert geometry.grad is not None and geometry.grad.isfinite().all()
    culled = ours.depths <= 0.2
    assert culled[:2].all() and 10 < culled.sum() < 35
    assert not geometry.grad[culled].any() and (ours.extents[culled] < 0.0).all()
    for values in (ours.means2d, ours.conics, ours.opacities, ours.depths):
        assert values.isfinite().all()


@BOTH
def test_nan_is_culled(project: Project, unit: float) -> None:
    camera = make_camera()
    geometry, _ = make_rows(22, camera)
    for column in range(11):
        geometry[column, column] = float("nan")
    assert not project(geometry, camera).radii[:11].any()


@BOTH
def test_no_rows(project: Project, unit: float) -> None:
    ours = project(torch.zeros(0, 11, requires_grad=True), make_camera())
    assert ours.means2d.shape == (0, 2) and ours.radii.shape == (0,)


def test_other_types_and_shapes_are_errors() -> None:
    camera, renderer = make_camera(), CpuRenderer()
    geometry, sh = make_rows(3, camera)
    for wrong in (geometry.double(), geometry[:, :10], torch.cat([geometry, sh], dim=1)):
        with pytest.raises(ValueError, match=r"expected torch.float32 \[M, 11\]"):
            renderer.project(wrong, camera)
    with pytest.raises(ValueError, match=r"sh is .* expected torch.float32 \[M, 48\]"):
        renderer.colour(geometry, geometry, camera, 0)


def test_rows_of_a_wider_table() -> None:
    """A slice of columns is not contiguous."""
    camera, renderer = make_camera(), CpuRenderer()
    geometry, sh = make_rows(30, camera)
    table = torch.cat([geometry, sh], dim=1).requires_grad_()
    ours = renderer.project(table[:, :11], camera)
    (ours.means2d.sum() + renderer.colour(table[:, :11], table[:, 11:], camera, 3).sum()).backward()
    assert torch.equal(ours.conics, renderer.project(geometry, camera).conics)
    assert table.grad is not None and table.grad[:, 11:].any() and table.grad[:, :3].any()
