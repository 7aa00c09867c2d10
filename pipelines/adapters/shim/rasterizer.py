"""The Gaussian rasterizers' Python interface on our CPU renderer.

Legend: M rows, H, W image size. What goes in is activated (scales, unit quaternions, opacities); our renderer takes
the parameters behind it, so the stand-in turns the activations around and its gradients back.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch

from pipelines import columns as gaussian_columns
from pipelines.adapters.pins import Pin
from pipelines.adapters.shim.made import made
from pipelines.camera import Camera
from pipelines.render.conventions import NEAR
from pipelines.render.cpu import CpuRenderer
from pipelines.render.protocol import Bins, Blended, BlendGradients, Projection

LEAST = 1e-7  # opacities of 0 and 1 have no logit
RENDERER = CpuRenderer()


class Settings(NamedTuple):
    """What all rasterizers take."""

    image_height: int
    image_width: int
    tanfovx: float
    tanfovy: float
    bg: torch.Tensor
    scale_modifier: float
    viewmatrix: torch.Tensor
    projmatrix: torch.Tensor
    sh_degree: int
    campos: torch.Tensor
    prefiltered: bool
    debug: bool


# Of 3DGS and DashGaussian; of TamingGS, whose `pixel_weights` [H, W] or None ask for the scores of a view.
AntialiasedSettings = namedtuple("AntialiasedSettings", (*Settings._fields, "antialiasing"))  # type: ignore[misc]
WeighedSettings = namedtuple("WeighedSettings", (*Settings._fields, "pixel_weights"))  # type: ignore[misc]


def camera_of(settings: Any) -> Camera:
    """Our camera for a rasterizer's settings; view matrices are transposed there."""
    pose = settings.viewmatrix.detach().numpy().astype(np.float64).T
    width, height = int(settings.image_width), int(settings.image_height)
    return Camera(
        name="",
        width=width,
        height=height,
        fx=width / (2.0 * settings.tanfovx),
        fy=height / (2.0 * settings.tanfovy),
        cx=width / 2.0,
        cy=height / 2.0,
        rotation=np.ascontiguousarray(pose[:3, :3]),
        translation=np.ascontiguousarray(pose[:3, 3]),
    )


class Seen(NamedTuple):
    """What a forward pass leaves behind."""

    geometry: torch.Tensor
    sh: torch.Tensor
    camera: Camera
    projection: Projection
    bins: Bins
    rgb: torch.Tensor
    blended: Blended


def parameters_of(
    means: torch.Tensor, scales: torch.Tensor, rotations: torch.Tensor, opacities: torch.Tensor
) -> torch.Tensor:
    """Geometry [M, 3 + scales + 5] behind activated values."""
    held = opacities.clamp(LEAST, 1.0 - LEAST)
    return torch.cat([means, scales.log(), rotations, torch.log(held / (1.0 - held))], dim=1).detach()


def activated_gradients(
    geometry: torch.Tensor, scales: torch.Tensor, opacities: torch.Tensor, columns: Any
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of means, scales, rotations and opacities from those of the parameters behind them."""
    held = opacities.clamp(LEAST, 1.0 - LEAST)
    return (
        geometry[:, columns.XYZ].contiguous(),
        geometry[:, columns.SCALE] / scales,
        geometry[:, columns.ROTATION].contiguous(),
        geometry[:, columns.OPACITY] / (held * (1.0 - held)),
    )


def rendered(geometry: torch.Tensor, sh: torch.Tensor, settings: Any) -> Seen:
    """A view of rows: geometry [M, 11], sh [M, 48]."""
    camera = camera_of(settings)
    with torch.enable_grad():
        geometry, sh = geometry.requires_grad_(), sh.requires_grad_()
        projection = RENDERER.project(geometry, camera)
        rgb = RENDERER.colour(geometry, sh, camera, settings.sh_degree)
    bins = RENDERER.bin(projection, camera)
    blended = RENDERER.blend(projection, bins, rgb, camera, settings.bg.float())
    return Seen(geometry, sh, camera, projection, bins, rgb, blended)


def pulled_back(seen: Seen, gradients: BlendGradients) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of geometry [M, 11] and sh [M, 48] from those of the blend's inputs."""
    p = seen.projection
    outputs = [p.means2d, p.conics, p.opacities, seen.rgb]
    inputs = [gradients.means2d, gradients.conics, gradients.opacities, gradients.rgb]
    geometry, sh = torch.autograd.grad(outputs, [seen.geometry, seen.sh], inputs)
    return geometry, sh


def half_size(camera: Camera) -> torch.Tensor:
    """Pixels of a unit of normalised device coordinates, [2]."""
    return torch.tensor([camera.width / 2.0, camera.height / 2.0])


def in_ndc(means2d: torch.Tensor, camera: Camera) -> torch.Tensor:
    """Gradient [M, 3] of screen positions in normalised device coordinates, from that per pixel, [M, 2]."""
    return torch.nn.functional.pad(means2d * half_size(camera), (0, 1))


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
        keep: list[Seen],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        geometry = parameters_of(means, scales * settings.scale_modifier, rotations, opacities)
        seen = rendered(geometry, sh.detach().clone(), settings)
        keep.append(seen)
        ctx.seen = seen
        ctx.save_for_backward(scales, opacities)
        radii = seen.projection.radii.clone()
        ctx.mark_non_differentiable(radii)
        return seen.blended.image.permute(2, 0, 1).contiguous(), radii

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        seen: Seen = ctx.seen
        scales, opacities = ctx.saved_tensors
        image = grads[0].permute(1, 2, 0).contiguous()
        back = RENDERER.blend_backward(seen.projection, seen.bins, seen.rgb, seen.blended, image)
        geometry, sh = pulled_back(seen, back)
        means, scale, rotation, opacity = activated_gradients(geometry, scales, opacities, gaussian_columns)
        return means, in_ndc(back.means2d, seen.camera), sh, opacity, scale, rotation, None, None


class OneView(torch.nn.Module):
    """What all rasterizers are: a module of the settings of one view."""

    def __init__(self, raster_settings: Any) -> None:
        super().__init__()
        self.raster_settings = raster_settings

    def markVisible(self, positions: torch.Tensor) -> torch.Tensor:
        """Rows in front of the near plane, bool [M]."""
        pose = self.raster_settings.viewmatrix
        mask: torch.Tensor = (positions @ pose[:3, 2] + pose[3, 2]) > NEAR
        return mask


class Rasterizer(OneView):
    """(image [3, H, W], radii [M], inverse depth [1, H, W]), the last as zeros: no recipe here uses it."""

    def forward(
        self,
        means3D: torch.Tensor,
        means2D: torch.Tensor,
        opacities: torch.Tensor,
        dc: torch.Tensor | None = None,
        shs: torch.Tensor | None = None,
        colors_precomp: torch.Tensor | None = None,
        scales: torch.Tensor | None = None,
        rotations: torch.Tensor | None = None,
        cov3D_precomp: torch.Tensor | None = None,
    ) -> Any:
        """Render rows; colours and covariances that are computed beforehand are not supported."""
        if shs is None or scales is None or rotations is None:
            raise ValueError("the stand-in rasterizer takes shs, scales and rotations")
        sh = (shs if dc is None else torch.cat([dc, shs], dim=1)).flatten(1)
        keep: list[Seen] = []
        image, radii = _Rasterize.apply(means3D, means2D, sh, opacities, scales, rotations, self.raster_settings, keep)
        return self._answer(image, radii, keep[0])

    def _answer(self, image: torch.Tensor, radii: torch.Tensor, seen: Seen) -> Any:
        return image, radii, torch.zeros(1, *image.shape[1:])


class ScoringRasterizer(Rasterizer):
    """TamingGS's 13 outputs; of counts and lists nothing reads the values."""

    def _answer(self, image: torch.Tensor, radii: torch.Tensor, seen: Seen) -> Any:
        projection, rows = seen.projection, len(radii)
        weights = self.raster_settings.pixel_weights
        sums = torch.zeros(rows, 4)
        if weights is not None:
            sums = RENDERER.pixel_scores(seen.bins, seen.blended, weights.detach().float()).float()
        visible = radii > 0
        depths = torch.where(visible, projection.depths.detach(), 0.0)
        none = torch.zeros(1, dtype=torch.int32)
        lists = (none, none, none, none)
        centres = projection.means2d.detach()
        return (image, radii, *lists, centres, depths, radii.clone(), sums[:, 0], sums[:, 1], sums[:, 2], sums[:, 3])


class SparseGaussianAdam(torch.optim.Adam):
    """Adam of the visible rows, without bias correction."""

    def __init__(self, params: Iterable[Any], lr: float, eps: float) -> None:
        super().__init__(params, lr=lr, eps=eps)

    @torch.no_grad()
    def step(self, visibility: torch.Tensor, N: int) -> None:  # type: ignore[override]
        """Step rows whose `visibility` (bool [N]) is set."""
        for group in self.param_groups:
            (parameter,) = group["params"]
            if parameter.grad is None:
                continue
            state = self.state[parameter]
            if not state:
                state["step"] = torch.tensor(0.0)
                state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
            beta1, beta2 = group["betas"]
            g, m, v = parameter.grad[visibility], state["exp_avg"][visibility], state["exp_avg_sq"][visibility]
            m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
            state["exp_avg"][visibility], state["exp_avg_sq"][visibility] = m, v
            parameter[visibility] -= group["lr"] * m / (v.sqrt() + group["eps"])


def module(pin: Pin) -> ModuleType:
    """The extension that a fork imports, with what its own has and no more."""
    kinds = {"taming-3dgs": (WeighedSettings, ScoringRasterizer)}
    settings, rasterizer = kinds.get(pin.name, (AntialiasedSettings, Rasterizer))
    selective = {"SparseGaussianAdam": SparseGaussianAdam} if "selective" in pin.optimizers else {}
    contents = {"GaussianRasterizationSettings": settings, "GaussianRasterizer": rasterizer, **selective}
    return made("diff_gaussian_rasterization", **contents)
