"""The surfel blend against a dense float64 compositor that is handed the renderer's own float32 inputs."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from pipelines.camera import Camera
from pipelines.render.surfels import SurfelRenderer
from pipelines.render.surfels.protocol import SurfelGradients, SurfelProjection
from tests.render import surfel_dense as dense
from tests.render.scenes import BACKGROUND, make_camera
from tests.render.surfel_dense import make_surfels

RENDERER = SurfelRenderer()
KINDS = ("means2d", "transforms", "normals", "depths", "rgb", "opacities")
MAPS = ("image", "alpha", "depth", "median", "distortion", "normal")


@dataclass(frozen=True)
class Comparison:
    """Both renderings of one scene; gradients are for one random gradient of all maps, zero at unsure pixels."""

    ours: dict[str, torch.Tensor]
    dense: dict[str, torch.Tensor]
    gradients: SurfelGradients
    dense_gradients: dict[str, torch.Tensor]
    reached: torch.Tensor
    sure: torch.Tensor


def depth_order(projection: SurfelProjection) -> torch.Tensor:
    """Drawn rows by (depth, row)."""
    rows = torch.nonzero(projection.radii > 0)[:, 0]
    return rows[torch.argsort(projection.depths[rows], stable=True)]


def upstream(camera: Camera, maps: tuple[str, ...] = MAPS) -> dict[str, torch.Tensor]:
    """Random gradients of the maps named, zero of the others."""
    generator = torch.Generator().manual_seed(1)
    size = camera.height, camera.width
    shapes = {name: (*size, 3) if name in ("image", "normal") else size for name in MAPS}
    drawn = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    return {name: value * (name in maps) for name, value in drawn.items()}


def stacked(gradients: dict[str, torch.Tensor]) -> torch.Tensor:
    """dL/dmaps [H, W, 7]."""
    flat = [gradients[name] for name in ("alpha", "depth", "median", "distortion")]
    return torch.cat([torch.stack(flat, dim=-1), gradients["normal"]], dim=-1)


def compare(
    geometry: torch.Tensor, sh: torch.Tensor, camera: Camera, degree: int = 3, maps: tuple[str, ...] = MAPS
) -> Comparison:
    projection = RENDERER.project(geometry, camera)
    bins = RENDERER.bin(projection, camera)
    rgb = RENDERER.colour(geometry, sh, camera, degree)
    blended = RENDERER.blend(projection, bins, rgb, camera, BACKGROUND)
    leaves = {name: getattr(projection, name) for name in KINDS if name != "rgb"} | {"rgb": rgb}
    leaves = {name: value.double().requires_grad_() for name, value in leaves.items()}
    order = depth_order(projection)
    dx, dy = dense._offsets(leaves["means2d"][order], camera)
    hits = dense.intersect(leaves["means2d"][order], leaves["transforms"][order], dx, dy)
    theirs, unsure, reached = dense.composite(leaves, hits, leaves["rgb"], order, camera, BACKGROUND.double())
    given = {
        name: value * (~unsure if value.ndim == 2 else ~unsure[..., None])
        for name, value in upstream(camera, maps).items()
    }
    gradients = RENDERER.blend_backward(projection, bins, blended, given["image"], stacked(given))
    loss = sum((theirs[name] * given[name].double()).sum() for name in MAPS)
    if loss.requires_grad:
        loss.backward()
    return Comparison(
        ours={name: getattr(blended, name) for name in MAPS},
        dense={name: value.detach() for name, value in theirs.items()},
        gradients=gradients,
        dense_gradients={n: torch.zeros_like(v) if v.grad is None else v.grad for n, v in leaves.items()},
        reached=reached,
        sure=~unsure,
    )


def assert_close(result: Comparison, image: float = 1e-6, gradient: float = 5e-5) -> None:
    assert (~result.sure).float().mean() < 0.02
    for name in MAPS:
        error = (result.ours[name].double() - result.dense[name])[result.sure].abs()
        # Depths are metres, not shares of a colour.
        scale = float(result.dense[name].abs().max().clamp_min(1.0)) if name in ("depth", "median") else 1.0
        assert error.max() <= image * scale, name
    for kind in KINDS:
        ours, theirs = getattr(result.gradients, kind).double(), result.dense_gradients[kind]
        assert (ours - theirs).norm() <= gradient * theirs.norm(), kind


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_every_degree(degree: int) -> None:
    camera = make_camera(64, 48)
    assert_close(compare(*make_surfels(300, camera, seed=degree), camera, degree))


@pytest.mark.parametrize(("width", "height"), [(64, 48), (70, 45), (17, 33), (5, 3), (16, 16)])
@pytest.mark.parametrize("pixels", [0.5, 3.0, 12.0])
def test_sizes(width: int, height: int, pixels: float) -> None:
    camera = make_camera(width, height, seed=width)
    assert_close(compare(*make_surfels(200, camera, seed=height, pixels=pixels, behind=0.2), camera))


@pytest.mark.parametrize("name", MAPS)
def test_each_map_alone(name: str) -> None:
    camera = make_camera(70, 45)
    assert_close(compare(*make_surfels(200, camera, seed=3, pixels=6.0), camera, maps=(name,)))


@pytest.mark.parametrize(("aniso", "image", "gradient"), [(1.0, 1e-6, 5e-5), (2.0, 3e-5, 1e-3)])
def test_thin_rows(aniso: float, image: float, gradient: float) -> None:
    """Needles a hundred times longer than wide. Far below a pixel wide, a float32 offset of 4e-6 px is a visible share
    of their width: the bounds are wider there."""
    camera = make_camera(70, 45)
    assert_close(compare(*make_surfels(150, camera, pixels=4.0, aniso=aniso), camera), image, gradient)


def test_opaque_rows_stop_pixels_early() -> None:
    """Lists longer than what is processed, alpha clamped at 0.99."""
    camera = make_camera(64, 48)
    geometry, sh = make_surfels(1500, camera, pixels=8.0)
    geometry[:, 9] = 3.0 + 2.0 * geometry[:, 9].abs()
    result = compare(geometry, sh, camera)
    assert_close(result)
    assert result.gradients.contributed.sum() < 900


def edge_on(camera: Camera, tilt: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Surfels whose plane holds the camera centre, tilted by up to `tilt` radians."""
    geometry, sh = make_surfels(80, camera, seed=seed, pixels=6.0)
    generator = torch.Generator().manual_seed(seed)
    ray = torch.nn.functional.normalize(geometry[:, :3] - torch.tensor(camera.centre).float(), dim=1)
    other = torch.nn.functional.normalize(torch.randn(80, 3, generator=generator), dim=1)
    side = torch.nn.functional.normalize(torch.linalg.cross(ray, other), dim=1)
    normal = torch.nn.functional.normalize(side + tilt * ray * torch.rand(80, 1, generator=generator), dim=1)
    along = torch.nn.functional.normalize(ray - (ray * normal).sum(1, keepdim=True) * normal, dim=1)
    frame = torch.stack([along, torch.linalg.cross(normal, along), normal], dim=2).double()
    w = 0.5 * torch.sqrt((1 + frame.diagonal(dim1=1, dim2=2).sum(1)).clamp_min(1e-9))
    xyz = [frame[:, 2, 1] - frame[:, 1, 2], frame[:, 0, 2] - frame[:, 2, 0], frame[:, 1, 0] - frame[:, 0, 1]]
    geometry[:, 5:9] = torch.stack([w, *(x / (4 * w) for x in xyz)], dim=1).float()
    return geometry, sh


@pytest.mark.parametrize("tilt", [0.0, 1e-4, 0.03, 0.3])
def test_edge_on_surfels_fall_back_to_the_low_pass_filter(tilt: float) -> None:
    camera = make_camera(64, 48)
    result = compare(*edge_on(camera, tilt), camera)
    assert result.reached.sum() > 40
    assert all(torch.isfinite(getattr(result.gradients, kind)).all() for kind in KINDS)
    if tilt >= 0.03:
        # A ray almost inside the plane magnifies the rounding of the inputs.
        assert_close(result, gradient=5e-5 if tilt == 0.3 else 2e-3, image=1e-6 if tilt == 0.3 else 2e-4)
    else:
        error = (result.ours["image"].double() - result.dense["image"])[result.sure].abs()
        assert error.max() < 2e-4


def test_discs_that_reach_behind_the_camera() -> None:
    """Their boxes are the whole image; fragments nearer than the near plane are not drawn."""
    camera = make_camera(64, 48)
    geometry, sh = make_surfels(40, camera, pixels=3.0)
    geometry[:, 3:5] = torch.tensor(camera.width / camera.fx).log() + 1.0
    result = compare(geometry, sh, camera)
    assert_close(result)
    assert result.reached.sum() > 10


def test_contributed_is_what_reached_a_live_pixel() -> None:
    camera = make_camera(64, 48)
    result = compare(*make_surfels(800, camera, pixels=6.0), camera)
    wrong = (result.gradients.contributed != result.reached).sum()
    assert wrong == 0 if result.sure.all() else wrong <= 2
    assert 0 < result.reached.sum() < 800


def test_rows_that_did_not_contribute_have_zero_gradients() -> None:
    camera = make_camera(64, 48)
    gradients = compare(*make_surfels(800, camera, pixels=6.0, behind=0.3), camera).gradients
    for kind in KINDS:
        assert not getattr(gradients, kind)[~gradients.contributed].any()


@pytest.mark.parametrize("rows", [0, 5])
def test_nothing_visible_is_background(rows: int) -> None:
    camera = make_camera(33, 20)
    geometry, sh = make_surfels(rows, camera, behind=1.0)
    result = compare(geometry, sh, camera)
    assert torch.equal(result.ours["image"], BACKGROUND.expand(20, 33, 3))
    assert not any(result.ours[name].any() for name in MAPS[1:]) and not result.gradients.contributed.any()
    assert result.gradients.means2d.shape == (rows, 2)


def test_the_compositor_notices_another_depth() -> None:
    """The comparison can fail: without the low-pass filter's own depth the depth maps differ."""
    camera = make_camera(64, 48)
    geometry, sh = make_surfels(200, camera, pixels=0.3)
    moved = geometry.clone()
    moved[:, :3] += torch.tensor(1e-4 * camera.rotation[2]).float()
    result, other = compare(geometry, sh, camera), compare(moved, sh, camera)
    assert (result.ours["depth"] - other.dense["depth"])[result.sure].abs().max() > 1e-5
