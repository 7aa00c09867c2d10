"""One view of surfels through a backend, forward and backward, for comparing backends on any device."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pipelines.camera import Camera
from pipelines.render.surfels import SurfelRenderer
from pipelines.render.surfels.protocol import MAPS, SurfelBackend, SurfelBlended
from tests.render.scenes import BACKGROUND, make_camera
from tests.render.surfel_dense import make_surfels


@dataclass(frozen=True)
class SurfelView:
    """Everything that a recipe gets out of one view."""

    blended: SurfelBlended
    geometry: torch.Tensor
    sh: torch.Tensor
    statistic: torch.Tensor


def render(
    backend: SurfelBackend, geometry: torch.Tensor, sh: torch.Tensor, camera: Camera, device: torch.device
) -> SurfelView:
    """As the recipe does it. Upstream's gradients are random, of image, alpha and normal: the maps that all backends
    define alike."""
    geometry, sh = geometry.to(device), sh.to(device)
    projection = backend.project(geometry, camera)
    bins = backend.bin(projection, camera)
    rgb = backend.colour(geometry, sh, camera, 3)
    blended = backend.blend(projection, bins, rgb, camera, BACKGROUND.to(device))
    generator = torch.Generator().manual_seed(2)
    image = torch.randn(camera.height, camera.width, 3, generator=generator)
    maps = torch.randn(camera.height, camera.width, MAPS, generator=generator)
    maps[..., 1:4] = 0.0
    grads = backend.blend_backward(projection, bins, blended, image.to(device), maps.to(device))
    direction, coefficients = backend.colour_backward(geometry, sh, camera, 3, rgb, grads.rgb)
    shape, statistic = backend.project_backward(geometry, camera, projection, grads)
    return SurfelView(blended, (shape + direction).cpu(), coefficients.cpu(), statistic.cpu())


def maps_of(view: SurfelView) -> dict[str, torch.Tensor]:
    """The maps on the host."""
    names = ("image", "alpha", "depth", "median", "distortion", "normal")
    return {name: getattr(view.blended, name).cpu() for name in names}


def compare(
    backend: SurfelBackend, rows: int, seed: int, width: int, height: int, device: torch.device
) -> dict[str, float]:
    """Share of pixels that differ by more than 1e-4 from the CPU renderer's, and relative L2 of gradients. No row is
    more opaque than 0.9: versions of gsplat clamp alpha at 0.99 or 0.999."""
    camera = make_camera(width, height, seed=seed)
    geometry, sh = make_surfels(rows, camera, seed=seed)
    geometry[:, 9].clamp_(max=2.1)
    theirs = render(backend, geometry, sh, camera, device)
    ours = render(SurfelRenderer(), geometry, sh, camera, torch.device("cpu"))
    a, b = maps_of(theirs), maps_of(ours)
    found = {n: float(((a[n] - b[n]).abs() > 1e-4).float().mean()) for n in ("image", "alpha", "normal")}
    for name in ("geometry", "sh", "statistic"):
        mine, truth = getattr(theirs, name), getattr(ours, name)
        found[name] = float((mine - truth).norm() / truth.norm())
    return found
