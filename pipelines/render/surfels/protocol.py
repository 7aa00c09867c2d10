"""What the surfel renderer's calls hand to each other.

A projected surfel is the homography between its own coordinates (u, v), in standard deviations, and pixel offsets
(dx, dy) from its projected centre:

    D = k₄ + k₅·dx + k₆·dy    u = (k₀·dx + k₁·dy) / D    v = (k₂·dx + k₃·dy) / D    depth = k₇ / D

which is the ray–splat intersection of Huang et al. 2024 (§4.2) with the cross product of both planes written out.
Offsets from the centre keep the digits that a cross product in image coordinates would cancel in float32; without a
division by the determinant nothing is infinite for a surfel seen edge on.

Legend: M rows handed in, H, W image size. Rows are ascending row ids, so equal depths are ordered by row id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch

from pipelines.camera import Camera
from pipelines.render.protocol import Bins


@dataclass(frozen=True, kw_only=True)
class SurfelProjection:
    """Screen-space surfels of one view; none carries an autograd graph, `project_backward` is a call of its own.

    means2d:    float32 [M, 2], pixels (pixel centres at .5)
    transforms: float32 [M, 8], k₀ … k₇
    normals:    float32 [M, 3], camera space, towards the camera
    opacities:  float32 [M], after the sigmoid
    depths:     float32 [M], view-space z of the centre
    middles:    float32 [M, 2], centre of the box where alpha ≥ 1/255, pixels
    extents:    float32 [M, 2], half width and height of that box; negative if culled
    radii:      int32 [M], ceil of the larger extent, 0 where no tile is touched
    """

    means2d: torch.Tensor
    transforms: torch.Tensor
    normals: torch.Tensor
    opacities: torch.Tensor
    depths: torch.Tensor
    middles: torch.Tensor
    extents: torch.Tensor
    radii: torch.Tensor


@dataclass(frozen=True, kw_only=True)
class SurfelBlended:
    """A blended view.

    image:      float32 [H, W, 3]
    alpha:      float32 [H, W], accumulated opacity
    depth:      float32 [H, W], sum of weight · depth (not divided by alpha)
    median:     float32 [H, W], depth of the median fragment, 0 where nothing is seen
    distortion: float32 [H, W], sum over pairs of weight · weight · (difference of mapped depths)²
    normal:     float32 [H, W, 3], sum of weight · normal, camera space
    fragments:  pixel–surfel pairs evaluated
    data:       what the backward needs
    """

    image: torch.Tensor
    alpha: torch.Tensor
    depth: torch.Tensor
    median: torch.Tensor
    distortion: torch.Tensor
    normal: torch.Tensor
    fragments: int
    data: Any

    @property
    def expected(self) -> torch.Tensor:
        """Expected depth, float32 [H, W]: depth / alpha, 0 where nothing is seen."""
        return torch.where(self.alpha > 0.0, self.depth / self.alpha.clamp_min(1e-12), 0.0)


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Weights of the geometric terms for one view, 0 before their start.

    normal, distortion: factors of the means; depth_ratio: 0 takes normals of the expected depth (unbounded scenes),
    1 of the median depth (bounded ones), between them of a mix
    """

    normal: float
    distortion: float
    depth_ratio: float


MAPS = 7
"""Channels of dL/dmaps: alpha, depth, median, distortion, normal (3)."""


@dataclass(frozen=True, kw_only=True)
class SurfelGradients:
    """Gradients of the loss with respect to the blend's inputs, all float32.

    means2d [M, 2] (transforms held), transforms [M, 8], normals [M, 3], depths [M] (of the centre), rgb [M, 3],
    opacities [M] (activated); contributed: bool [M], the row reached a live pixel with alpha ≥ 1/255
    """

    means2d: torch.Tensor
    transforms: torch.Tensor
    normals: torch.Tensor
    depths: torch.Tensor
    rgb: torch.Tensor
    opacities: torch.Tensor
    contributed: torch.Tensor


class SurfelBackend(Protocol):
    """One backend, split as `render.protocol.Renderer` is."""

    splittable: bool

    def project(self, geometry: torch.Tensor, camera: Camera) -> SurfelProjection:
        """Project rows. geometry: float32 [M, 10] (surfel_columns.py order)."""
        ...

    def project_backward(
        self, geometry: torch.Tensor, camera: Camera, projection: SurfelProjection, grads: SurfelGradients
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradient of the geometry, float32 [M, 10], and upstream's densification statistic, float32 [M, 2]: the
        gradient of the projected centre with the projected tangents held, per pixel."""
        ...

    def bin(self, projection: SurfelProjection, camera: Camera) -> Bins:
        """Assign rows to 16×16 tiles, in (depth, row) order."""
        ...

    def colour(self, geometry: torch.Tensor, sh: torch.Tensor, camera: Camera, degree: int) -> torch.Tensor:
        """RGB of each row, float32 [M, 3], clamped below at 0. sh: float32 [M, 48], coefficient-major."""
        ...

    def colour_backward(
        self,
        geometry: torch.Tensor,
        sh: torch.Tensor,
        camera: Camera,
        degree: int,
        rgb: torch.Tensor,
        grad: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradients of geometry [M, 10] (through the view direction) and sh [M, 48]."""
        ...

    def blend(
        self, projection: SurfelProjection, bins: Bins, rgb: torch.Tensor, camera: Camera, background: torch.Tensor
    ) -> SurfelBlended:
        """Front-to-back compositing. background: float32 [3]."""
        ...

    def blend_backward(
        self,
        projection: SurfelProjection,
        bins: Bins,
        blended: SurfelBlended,
        grad_image: torch.Tensor,
        grad_maps: torch.Tensor,
    ) -> SurfelGradients:
        """Backward of `blend` for dL/dimage [H, W, 3] and dL/dmaps [H, W, 7]; uses the forward's lists."""
        ...

    def loss(
        self, blended: SurfelBlended, photo: Any, weight: float, camera: Camera, weights: Weights
    ) -> tuple[float | torch.Tensor, torch.Tensor, torch.Tensor]:
        """Photometric loss and geometric terms of a view, dL/dimage [H, W, 3] and dL/dmaps [H, W, 7].

        photo: float32 [H, W, 3] where the backend renders; weight: of DSSIM in the photometric loss
        """
        ...
