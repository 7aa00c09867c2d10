"""One view through a backend, forward and backward, for comparing backends on any device."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pipelines.camera import Camera
from pipelines.render.protocol import Renderer
from tests.render.scenes import BACKGROUND, make_camera, make_rows


@dataclass(frozen=True)
class View:
    """Everything that a recipe gets out of one view, on the CPU."""

    image: torch.Tensor
    alpha: torch.Tensor
    loss: float
    geometry: torch.Tensor
    sh: torch.Tensor
    entries: int


def scene(rows: int, seed: int, width: int = 64, height: int = 48) -> tuple[torch.Tensor, torch.Tensor, Camera]:
    """No row is more opaque than 0.9: versions of gsplat clamp alpha at 0.99 or 0.999."""
    camera = make_camera(width, height, seed=seed)
    geometry, sh = make_rows(rows, camera, seed=seed)
    geometry[:, 10].clamp_(max=2.1)
    return geometry, sh, camera


def render(renderer: Renderer, geometry: torch.Tensor, sh: torch.Tensor, camera: Camera, device: torch.device) -> View:
    """As the recipe does it; the photo is a ramp."""
    geometry, sh = (x.to(device).requires_grad_() for x in (geometry.clone(), sh.clone()))
    ramp = torch.linspace(0.0, 1.0, camera.width).expand(camera.height, camera.width)
    photo = torch.stack([ramp, 1.0 - ramp, 0.5 * ramp], dim=2).contiguous().to(device)
    projection = renderer.project(geometry, camera)
    bins = renderer.bin(projection, camera)
    rgb = renderer.colour(geometry, sh, camera, 3)
    blended = renderer.blend(projection, bins, rgb, camera, BACKGROUND.to(device))
    loss, gradient = renderer.loss(blended.image, photo, 0.2)
    back = renderer.blend_backward(projection, bins, rgb, blended, gradient)
    outputs = [projection.means2d, projection.conics, projection.opacities, rgb]
    torch.autograd.backward(outputs, [back.means2d, back.conics, back.opacities, back.rgb])
    assert geometry.grad is not None and sh.grad is not None
    return View(blended.image.cpu(), blended.alpha.cpu(), float(loss), geometry.grad.cpu(), sh.grad.cpu(), bins.entries)


def differences(a: View, b: View) -> dict[str, float]:
    """Share of pixels that differ by more than 1e-4 (decisions at a threshold fall either way), relative L2 of
    gradients, and of the loss."""
    image = (a.image - b.image).abs().amax(dim=2)
    return {
        "pixels": float((image > 1e-4).float().mean()),
        "alpha": float(((a.alpha - b.alpha).abs() > 1e-4).float().mean()),
        "loss": abs(a.loss - b.loss) / b.loss,
        "geometry": float((a.geometry - b.geometry).norm() / b.geometry.norm()),
        "sh": float((a.sh - b.sh).norm() / b.sh.norm()),
    }
