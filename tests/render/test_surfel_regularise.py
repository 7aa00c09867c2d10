"""Normal consistency and distortion against torch autograd in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pipelines.camera import Camera
from pipelines.render.surfels import SurfelRenderer
from pipelines.render.surfels.protocol import SurfelBlended, Weights
from pipelines.render.surfels.regularise import depth_normals, regularise
from tests.render.scenes import BACKGROUND, make_camera
from tests.render.surfel_dense import make_surfels

RENDERER = SurfelRenderer()
CHANNELS = {"alpha": 0, "depth": 1, "median": 2, "distortion": 3, "normal": slice(4, 7)}


def render(camera: Camera, geometry: torch.Tensor, sh: torch.Tensor) -> SurfelBlended:
    projection = RENDERER.project(geometry, camera)
    bins = RENDERER.bin(projection, camera)
    rgb = RENDERER.colour(geometry, sh, camera, 0)
    return RENDERER.blend(projection, bins, rgb, camera, BACKGROUND)


def normals_of(depth: torch.Tensor, camera: Camera) -> torch.Tensor:
    """[H, W, 3] by slices of the point map, zero at the border."""
    ys, xs = torch.meshgrid(torch.arange(camera.height).double(), torch.arange(camera.width).double(), indexing="ij")
    rays = torch.stack(
        [(xs + 0.5 - camera.cx) / camera.fx, (ys + 0.5 - camera.cy) / camera.fy, torch.ones(xs.shape)], 2
    )
    points = depth[..., None] * rays.double()
    down, across = points[2:, 1:-1] - points[:-2, 1:-1], points[1:-1, 2:] - points[1:-1, :-2]
    inner = torch.nn.functional.normalize(torch.linalg.cross(down, across), dim=-1)
    return torch.nn.functional.pad(inner, (0, 0, 1, 1, 1, 1))


def reference(maps: dict[str, torch.Tensor], camera: Camera, w: Weights) -> torch.Tensor:
    expected = torch.where(maps["alpha"] > 0, maps["depth"] / maps["alpha"].clamp_min(1e-12), 0.0)
    surface = normals_of((1 - w.depth_ratio) * expected + w.depth_ratio * maps["median"], camera)
    error = 1 - (maps["normal"] * surface * maps["alpha"].detach()[..., None]).sum(-1)
    return w.normal * error.mean() + w.distortion * maps["distortion"].mean()


@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("count", [400, 12])
def test_value_and_gradient(ratio: float, count: int) -> None:
    camera = make_camera(50, 37)
    blended = render(camera, *make_surfels(count, camera, pixels=8.0))
    weights = Weights(normal=0.05, distortion=10.0, depth_ratio=ratio)
    maps = {name: getattr(blended, name).double().requires_grad_() for name in CHANNELS}
    expected = reference(maps, camera, weights)
    expected.backward()
    loss, grad = regularise(blended, camera, weights)
    assert loss == pytest.approx(expected.item(), rel=1e-9)
    for name, channel in CHANNELS.items():
        theirs = maps[name].grad
        ours = grad[..., channel].double()
        if theirs is None:
            assert not ours.any()
        else:
            assert (ours - theirs).norm() <= 1e-5 * theirs.norm() + 1e-12, name


def test_terms_are_off_before_their_start() -> None:
    camera = make_camera(50, 37)
    blended = render(camera, *make_surfels(50, camera, pixels=8.0))
    loss, grad = regularise(blended, camera, Weights(normal=0.0, distortion=0.0, depth_ratio=0.0))
    assert loss == 0.0 and not grad.any()


def test_a_plane_has_its_normal() -> None:
    """One large opaque disc: the depth map's normal is the disc's, and both normals agree."""
    camera = make_camera(64, 48)
    geometry, sh = make_surfels(1, camera)
    geometry[0, :3] = torch.tensor(camera.centre + 2.0 * camera.rotation[2])
    # A rotation near the camera's own: the third axis of its transpose is the view direction, tilted.
    turn = camera.rotation.T @ np.array([[1, 0, 0], [0, 0.9, -0.4359], [0, 0.4359, 0.9]])
    w = 0.5 * np.sqrt(1 + np.trace(turn))
    if w > 0.1:
        xyz = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]]) / (4 * w)
        geometry[0, 5:9] = torch.tensor([w, *xyz])
    geometry[0, 3:5], geometry[0, 9] = 1.0, 8.0
    blended = render(camera, geometry, sh)
    rendered = blended.normal.numpy()[1:-1, 1:-1]
    rendered = rendered / np.linalg.norm(rendered, axis=2, keepdims=True)
    surface = depth_normals(blended, camera, 0.0)[1:-1, 1:-1]
    assert (rendered * surface).sum(2).min() > 0.9999
