"""The geometric terms of 2DGS as torch operations, for maps on a device; `regularise.py` has them in kernels.

Legend: H, W image size.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from pipelines.camera import Camera
from pipelines.render.surfels.protocol import MAPS, SurfelBlended, Weights
from pipelines.render.surfels.regularise import LEAST


def regularise(blended: SurfelBlended, camera: Camera, weights: Weights) -> tuple[torch.Tensor, torch.Tensor]:
    """Value of both terms as a tensor [], and their gradient with respect to the maps, float32 [H, W, 7]
    (`protocol.MAPS`). The host does not wait."""
    maps = (blended.alpha, blended.depth, blended.median, blended.distortion, blended.normal)
    with torch.enable_grad():
        leaves = [x.detach().double().requires_grad_() for x in maps]
        value = _value(leaves, camera, weights)
    gradients = torch.autograd.grad(value, leaves)
    channels = [g if g.ndim == 3 else g[..., None] for g in gradients]
    grad = torch.cat(channels, dim=2).float()
    assert grad.shape[2] == MAPS
    return value.detach(), grad


def _value(maps: list[torch.Tensor], camera: Camera, weights: Weights) -> torch.Tensor:
    alpha, depth, median, distortion, normal = maps
    seen = alpha > 0.0
    expected = torch.where(seen, depth / torch.where(seen, alpha, 1.0), 0.0)
    ratio = weights.depth_ratio
    surface = _normals((1.0 - ratio) * expected + ratio * median, camera)
    agreement = (normal * surface).sum(dim=2) * alpha.detach()
    return weights.normal * (1.0 - agreement).mean() + weights.distortion * distortion.mean()


def _rays(camera: Camera, like: torch.Tensor) -> torch.Tensor:
    """Points at depth 1 on the rays of all pixels, [H, W, 3], made where `like` is: nothing is copied there."""
    x, y = (torch.arange(n, dtype=like.dtype, device=like.device) for n in (camera.width, camera.height))
    columns = ((x + 0.5 - camera.cx) / camera.fx).expand(camera.height, -1)
    rows = ((y + 0.5 - camera.cy) / camera.fy)[:, None].expand(-1, camera.width)
    return torch.stack([columns, rows, torch.ones_like(rows)], dim=2)


def _normals(depth: torch.Tensor, camera: Camera) -> torch.Tensor:
    """Unit normals of a depth map by central differences, [H, W, 3]; 0 at the border."""
    points = depth[..., None] * _rays(camera, depth)
    down, across = points[2:, 1:-1] - points[:-2, 1:-1], points[1:-1, 2:] - points[1:-1, :-2]
    cross = torch.linalg.cross(down, across)
    square = (cross * cross).sum(dim=2, keepdim=True)
    # Without a direction there is no gradient either; a root at 0 has none that is finite.
    there = square > LEAST * LEAST
    inner = torch.where(there, cross / torch.where(there, square, 1.0).sqrt(), 0.0)
    return functional.pad(inner, (0, 0, 1, 1, 1, 1))
