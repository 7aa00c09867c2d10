"""The adapter for 2DGS (hbb1/2d-gaussian-splatting)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import torch

from pipelines import surfel_columns
from pipelines.adapters.mapping import SURFELS, TensorMapping
from pipelines.adapters.recipe import ForkSplatting, photometric
from pipelines.camera import Camera
from pipelines.reference.settings import Settings
from pipelines.reference.surfel_settings import SurfelSettings
from pipelines.render import culls

# Of 30,000 images: from when the geometric terms count, as in upstream's loop.
NORMAL_FROM, DISTORTION_FROM = 7_000, 3_000


class ForkedSurfels(ForkSplatting):
    """2DGS: surfels, normal consistency and depth distortion. Its SSIM is torch's, its statistic has three parts."""

    tensors: ClassVar[TensorMapping] = SURFELS
    kinds: Mapping[str, slice] = MappingProxyType(SURFELS.by_name)
    shape, culls = surfel_columns.GEOMETRY, culls.SURFELS
    settings: SurfelSettings

    def _words(self, settings: Settings) -> list[str]:
        assert isinstance(settings, SurfelSettings)
        weights = {"lambda_normal": settings.lambda_normal, "lambda_dist": settings.lambda_dist}
        words = {**weights, "depth_ratio": settings.depth_ratio}
        return super()._words(settings) + [part for k, v in words.items() for part in (f"--{k}", str(v))]

    def _make_model(self) -> Any:
        return self.fork.module("scene").GaussianModel(3)

    def _watching(self, camera: Camera) -> Camera:
        """As it is: boxes of surfels have the margin already."""
        return camera

    def _render(self, view: Any, model: Any) -> dict[str, Any]:
        package: dict[str, Any] = self.fork.module("gaussian_renderer").render(view, model, self.pipe, self.background)
        return package

    def _loss(self, package: Mapping[str, Any], photo: torch.Tensor, step: int) -> torch.Tensor:
        losses, image, now = self.fork.module("utils.loss_utils"), package["render"], self.iteration(step)
        total = photometric(self.fork, image, photo, self.options.lambda_dssim, losses.ssim(image, photo))
        normal = self.options.lambda_normal if now > NORMAL_FROM else 0.0
        distortion = self.options.lambda_dist if now > DISTORTION_FROM else 0.0
        disagreement = 1 - (package["rend_normal"] * package["surf_normal"]).sum(dim=0)
        return total + distortion * package["rend_dist"].mean() + normal * disagreement.mean()

    def _densify(self, step: int, shared: torch.Tensor | None) -> None:
        options = self.options
        self.gaussians.densify_and_prune(
            options.densify_grad_threshold, options.opacity_cull, self.extent, self._largest(step)
        )
