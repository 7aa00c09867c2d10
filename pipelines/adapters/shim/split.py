"""Grendel's rasterizer, which is called in two parts, on our CPU renderer: rows to the screen, and the screen's pixels.

Gradients of screen positions are in normalised device coordinates between the two, as in the CUDA extension.

Legend: M rows, H, W image size.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import torch

from pipelines.adapters.shim.made import made
from pipelines.adapters.shim.rasterizer import (
    RENDERER,
    OneView,
    Settings,
    activated_gradients,
    camera_of,
    gaussian_columns,
    half_size,
    parameters_of,
)
from pipelines.render.conventions import ALPHA_MIN
from pipelines.render.protocol import Projection


class _Preprocess(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        means: torch.Tensor,
        scales: torch.Tensor,
        rotations: torch.Tensor,
        shs: torch.Tensor,
        opacities: torch.Tensor,
        settings: Any,
    ) -> tuple[torch.Tensor, ...]:
        camera = camera_of(settings)
        geometry = parameters_of(means, scales * settings.scale_modifier, rotations, opacities)
        with torch.enable_grad():
            geometry, sh = geometry.requires_grad_(), shs.detach().flatten(1).clone().requires_grad_()
            projection = RENDERER.project(geometry, camera)
            rgb = RENDERER.colour(geometry, sh, camera, settings.sh_degree)
        ctx.seen, ctx.camera, ctx.shape = (geometry, sh, projection, rgb), camera, shs.shape
        ctx.save_for_backward(scales, opacities)
        conic_opacity = torch.cat([projection.conics, projection.opacities[:, None]], dim=1).detach()
        radii, depths = projection.radii.clone(), projection.depths.detach().clone()
        ctx.mark_non_differentiable(radii, depths)
        return projection.means2d.detach().clone(), rgb.detach().clone(), conic_opacity, radii, depths

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        geometry, sh, projection, rgb = ctx.seen
        scales, opacities = ctx.saved_tensors
        outputs = [projection.means2d, projection.conics, projection.opacities, rgb]
        back = [grads[0] / half_size(ctx.camera), grads[2][:, :3].contiguous(), grads[2][:, 3].contiguous(), grads[1]]
        of_geometry, of_sh = torch.autograd.grad(outputs, [geometry, sh], back)
        means, scale, rotation, opacity = activated_gradients(of_geometry, scales, opacities, gaussian_columns)
        return means, scale, rotation, of_sh.view(ctx.shape), opacity, None


class _Render(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        means2d: torch.Tensor,
        conic_opacity: torch.Tensor,
        rgb: torch.Tensor,
        depths: torch.Tensor,
        radii: torch.Tensor,
        settings: Any,
    ) -> torch.Tensor:
        camera = camera_of(settings)
        conics, opacities = conic_opacity[:, :3].detach().contiguous(), conic_opacity[:, 3].detach().contiguous()
        projection = Projection(
            means2d=means2d.detach().contiguous(),
            conics=conics,
            opacities=opacities,
            depths=depths.contiguous(),
            extents=extents_of(conics, opacities, radii),
            radii=radii.to(torch.int32),
        )
        bins, colours = RENDERER.bin(projection, camera), rgb.detach().contiguous()
        blended = RENDERER.blend(projection, bins, colours, camera, settings.bg.float())
        ctx.seen, ctx.camera = (projection, bins, colours, blended), camera
        return blended.image.permute(2, 0, 1).contiguous()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        projection, bins, rgb, blended = ctx.seen
        back = RENDERER.blend_backward(projection, bins, rgb, blended, grads[0].permute(1, 2, 0).contiguous())
        conic_opacity = torch.cat([back.conics, back.opacities[:, None]], dim=1)
        return back.means2d * half_size(ctx.camera), conic_opacity, back.rgb, None, None, None


def extents_of(conics: torch.Tensor, opacities: torch.Tensor, radii: torch.Tensor) -> torch.Tensor:
    """Half sizes [M, 2] of the boxes where alpha may reach 1/255; negative where a row is not drawn."""
    a, b, c = conics.double().unbind(1)
    determinant = (a * c - b * b).clamp(min=1e-30)
    level = 2.0 * torch.log((opacities.double() / ALPHA_MIN).clamp(min=1.0))
    across, down = torch.sqrt(level * c / determinant), torch.sqrt(level * a / determinant)
    drawn = (radii > 0) & (opacities >= ALPHA_MIN)
    boxes = torch.stack([across, down], dim=1) * (1.0 + 1e-6)
    return torch.where(drawn[:, None], boxes, -1.0).float()


class SplitRasterizer(OneView):
    """`preprocess_gaussians` and `render_gaussians`."""

    def preprocess_gaussians(
        self,
        means3D: torch.Tensor,
        scales: torch.Tensor,
        rotations: torch.Tensor,
        shs: torch.Tensor,
        opacities: torch.Tensor,
        cuda_args: dict[str, Any],
    ) -> tuple[torch.Tensor, ...]:
        """Means [M, 2] in pixels, rgb [M, 3], conic and opacity [M, 4], radii [M], depths [M]."""
        seen: tuple[torch.Tensor, ...] = _Preprocess.apply(
            means3D, scales, rotations, shs, opacities, self.raster_settings
        )
        return seen

    def render_gaussians(
        self,
        means2D: torch.Tensor,
        conic_opacity: torch.Tensor,
        rgb: torch.Tensor,
        depths: torch.Tensor,
        radii: torch.Tensor,
        compute_locally: torch.Tensor,
        extended_compute_locally: torch.Tensor | None,
        cuda_args: dict[str, Any],
    ) -> tuple[torch.Tensor, ...]:
        """Image [3, H, W], and three counts of the kernel, as zeros. All tiles are rendered."""
        if not bool(compute_locally.all()):
            raise ValueError("the stand-in rasterizer renders whole images only")
        image = _Render.apply(means2D, conic_opacity, rgb, depths, radii, self.raster_settings)
        cuda_args["stats_collector"].update(forward_render_time=0.0, backward_render_time=0.0)
        none = torch.zeros(1, dtype=torch.int32)
        return image, none, none, none


def module() -> tuple[ModuleType, ...]:
    """The extension that Grendel imports, its C part, and gsplat, of which it imports names that it does not call."""
    core = made("diff_gaussian_rasterization._C", get_block_XY=lambda: (16, 16, 256))
    rasterizer = made(
        "diff_gaussian_rasterization",
        GaussianRasterizationSettings=Settings,
        GaussianRasterizer=SplitRasterizer,
        _C=core,
    )
    names = ("rasterization", "fully_fused_projection", "spherical_harmonics", "isect_tiles", "isect_offset_encode")
    unused = dict.fromkeys((*names, "rasterize_to_pixels"), math.nan)
    return rasterizer, core, made("gsplat", **unused)
