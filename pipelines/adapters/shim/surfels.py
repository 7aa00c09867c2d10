"""The surfel rasterizer's Python interface on our CPU renderer.

Legend: M rows, H, W image size. Maps [7, H, W]: 0 depth (weighted sum), 1 opacity, 2–4 normal (camera space),
5 median depth, 6 distortion.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import torch

from pipelines import surfel_columns
from pipelines.adapters.shim.made import made
from pipelines.adapters.shim.rasterizer import OneView, Settings, activated_gradients, camera_of, in_ndc, parameters_of
from pipelines.camera import Camera
from pipelines.render.protocol import Bins
from pipelines.render.surfels import SurfelRenderer
from pipelines.render.surfels.protocol import SurfelBlended, SurfelProjection

RENDERER = SurfelRenderer()
# Where each channel of our maps' gradient (alpha, depth, median, distortion, normal) is in the fork's.
_OURS = (1, 0, 5, 6, 2, 3, 4)


class _Seen(NamedTuple):
    geometry: torch.Tensor
    sh: torch.Tensor
    camera: Camera
    degree: int
    projection: SurfelProjection
    bins: Bins
    rgb: torch.Tensor
    blended: SurfelBlended


class _Rasterize(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        means: torch.Tensor,
        means2d: torch.Tensor,
        sh: torch.Tensor,
        opacities: torch.Tensor,
        scales: torch.Tensor,
        rotations: torch.Tensor,
        settings: Any,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        camera, sh = camera_of(settings), sh.detach().clone()
        geometry = parameters_of(means, scales * settings.scale_modifier, rotations, opacities)
        projection = RENDERER.project(geometry, camera)
        bins = RENDERER.bin(projection, camera)
        rgb = RENDERER.colour(geometry, sh, camera, settings.sh_degree)
        blended = RENDERER.blend(projection, bins, rgb, camera, settings.bg.float())
        ctx.seen = _Seen(geometry, sh, camera, settings.sh_degree, projection, bins, rgb, blended)
        ctx.save_for_backward(scales, opacities)
        planes = (blended.alpha, blended.depth, blended.median, blended.distortion, *blended.normal.unbind(-1))
        maps = torch.empty(7, camera.height, camera.width)
        for channel, plane in zip(_OURS, planes, strict=True):
            maps[channel] = plane
        radii = projection.radii.clone()
        ctx.mark_non_differentiable(radii)
        return blended.image.permute(2, 0, 1).contiguous(), radii, maps

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        seen: _Seen = ctx.seen
        scales, opacities = ctx.saved_tensors
        image = grads[0].permute(1, 2, 0).contiguous()
        maps = grads[2][list(_OURS)].permute(1, 2, 0).contiguous()
        maps[seen.blended.alpha == 0] = 0.0  # depth / opacity, of which nothing is there, has gradient 0 · ∞
        back = RENDERER.blend_backward(seen.projection, seen.bins, seen.blended, image, maps)
        geometry, centres = RENDERER.project_backward(seen.geometry, seen.camera, seen.projection, back)
        direction, sh = RENDERER.colour_backward(seen.geometry, seen.sh, seen.camera, seen.degree, seen.rgb, back.rgb)
        given = activated_gradients(geometry + direction, scales, opacities, surfel_columns)
        means, scale, rotation, opacity = given
        return means, in_ndc(centres, seen.camera), sh, opacity, scale, rotation, None


class SurfelRasterizer(OneView):
    """(image [3, H, W], radii [M], maps [7, H, W])."""

    def forward(
        self,
        means3D: torch.Tensor,
        means2D: torch.Tensor,
        opacities: torch.Tensor,
        shs: torch.Tensor | None = None,
        colors_precomp: torch.Tensor | None = None,
        scales: torch.Tensor | None = None,
        rotations: torch.Tensor | None = None,
        cov3D_precomp: torch.Tensor | None = None,
    ) -> Any:
        """Render surfels; scales [M, 2]. Colours and transforms computed beforehand are not supported."""
        if shs is None or scales is None or rotations is None:
            raise ValueError("the stand-in rasterizer takes shs, scales and rotations")
        sh = shs.flatten(1)
        return _Rasterize.apply(means3D, means2D, sh, opacities, scales, rotations, self.raster_settings)


def module() -> ModuleType:
    """The extension that 2DGS imports."""
    contents = {"GaussianRasterizationSettings": Settings, "GaussianRasterizer": SurfelRasterizer}
    return made("diff_surfel_rasterization", **contents)
