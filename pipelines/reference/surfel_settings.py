"""Constants of the 2DGS recipe where they differ from 3DGS's (FORKS.md: 2DGS at its pin)."""

from __future__ import annotations

from dataclasses import dataclass

from odin.errors import InputError
from pipelines.reference.settings import REFERENCE_BUDGET, Settings
from pipelines.render.surfels.protocol import Weights


@dataclass(frozen=True, kw_only=True)
class SurfelSettings(Settings):
    """One 2DGS training run.

    min_opacity:     rows below are pruned when densifying (upstream's opacity_cull)
    densification_floor_steps: a reset leaves opacities at 0.01, and the fastest row takes 34 steps of opacity_lr to
                     come back above min_opacity; upstream densifies 100 steps later. 3DGS's floor of 25 would prune
                     all rows.
    lambda_normal:   weight of normal consistency, after `normal_from` images
    lambda_dist:     weight of the depth distortion, after `distortion_from` images; 0 upstream, where each scene sets
                     its own
    depth_ratio:     0: normals of the expected depth (unbounded scenes), 1: of the median depth (bounded ones)
    """

    min_opacity: float = 0.05
    densification_floor_steps: int = 50
    lambda_normal: float = 0.05
    lambda_dist: float = 0.0
    depth_ratio: float = 0.0
    normal_from: int = 7000
    distortion_from: int = 3000

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("lambda_normal", "lambda_dist"):
            if getattr(self, name) < 0:
                raise InputError(f"pipeline.{name} is {getattr(self, name)}; a weight is 0 or more.")
        if not 0 <= self.depth_ratio <= 1:
            raise InputError(f"pipeline.depth_ratio is {self.depth_ratio}; give 0 (expected) to 1 (median depth).")

    def weights(self, images: float, budget: int) -> Weights:
        """Weights of both terms for a view that is trained after `images` of `budget` images."""
        scaled = images * REFERENCE_BUDGET / budget
        return Weights(
            normal=self.lambda_normal if scaled >= self.normal_from else 0.0,
            distortion=self.lambda_dist if scaled >= self.distortion_from else 0.0,
            depth_ratio=self.depth_ratio,
        )
