"""The adapter for 3DGS (graphdeco-inria/gaussian-splatting), and what the forks built on it share.

The pinned rasterizer has dense Adam only; whether colours go to it in two tensors follows from the installed one, as in
upstream's own loop.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import torch

from pipelines.adapters.recipe import ForkSplatting, photometric

MIN_OPACITY = 0.005  # upstream's literal, below which a primitive is pruned


class ForkedGaussians(ForkSplatting):
    """3DGS: adaptive density control, photometric loss. Exposure and depth terms stay off, as without their flags."""

    @property
    def separate_sh(self) -> bool:
        """The installed rasterizer takes f_dc and f_rest apart."""
        return hasattr(sys.modules["diff_gaussian_rasterization"], "SparseGaussianAdam")

    def _render(self, view: Any, model: Any) -> dict[str, Any]:
        render = self.fork.module("gaussian_renderer").render
        package: dict[str, Any] = render(view, model, self.pipe, self.background, separate_sh=self.separate_sh)
        return package

    def _loss(self, package: Mapping[str, Any], photo: torch.Tensor, step: int) -> torch.Tensor:
        image = package["render"]
        return photometric(self.fork, image, photo, self.options.lambda_dssim, self._similarity(image, photo))

    @cached_property
    def _similarity(self) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        """SSIM of images [3, H, W]: the fused kernel where it is installed, as upstream."""
        try:
            fused = importlib.import_module("fused_ssim").fused_ssim
        except ImportError:
            plain: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = self.fork.module("utils.loss_utils").ssim
            return plain
        return lambda image, photo: fused(image[None], photo[None])

    def _densify(self, step: int, shared: torch.Tensor | None) -> None:
        self.gaussians.densify_and_prune(
            self.options.densify_grad_threshold, MIN_OPACITY, self.extent, self._largest(step), self._radii()
        )
