"""The renderer interface: project, bin, colour and blend as separate calls, forward and backward.

The split is part of the interface, not an implementation detail: Odin publishes geometry before a view is
projected and colours before it is blended (§4.3, column groups), and mixed-parallel pipelines exchange projected
rows between the calls.

Legend: M rows handed in (any superset of the rows a view touches), H, W image size.
Rows are ascending row ids of the parameter table, so equal depths are ordered by row id in every superset.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch

from pipelines.camera import Camera


@dataclass(frozen=True, kw_only=True)
class Projection:
    """Screen-space primitives of one view; `means2d`, `conics`, `opacities` carry the autograd graph.

    means2d:   float32 [M, 2], pixels (pixel centres at .5)
    conics:    float32 [M, 3], inverse 2D covariance (a, b, c), after the 0.3 px² dilation
    opacities: float32 [M], after the sigmoid
    depths:    float32 [M], view-space z
    extents:   float32 [M, 2], half width and height in pixels of the box where alpha ≥ 1/255; negative if culled
    radii:     int32 [M], ceil of the larger extent, 0 where no tile is touched
    """

    means2d: torch.Tensor
    conics: torch.Tensor
    opacities: torch.Tensor
    depths: torch.Tensor
    extents: torch.Tensor
    radii: torch.Tensor


@dataclass(frozen=True, kw_only=True)
class Bins:
    """Depth-ordered row lists of each tile; `entries` is their total length, `data` belongs to the backend."""

    entries: int
    data: Any


@dataclass(frozen=True, kw_only=True)
class Blended:
    """A blended view.

    image:     float32 [H, W, 3]
    alpha:     float32 [H, W], accumulated opacity
    fragments: pixel–primitive pairs evaluated, the work measure of the blend
    data:      what the backend's backward needs
    """

    image: torch.Tensor
    alpha: torch.Tensor
    fragments: int
    data: Any


@dataclass(frozen=True, kw_only=True)
class BlendGradients:
    """Gradients of the loss with respect to the blend's inputs.

    means2d [M, 2] (per pixel), conics [M, 3], rgb [M, 3], opacities [M] (activated), all float32
    contributed: bool [M], the row reached a live pixel with alpha ≥ 1/255
    """

    means2d: torch.Tensor
    conics: torch.Tensor
    rgb: torch.Tensor
    opacities: torch.Tensor
    contributed: torch.Tensor


class Renderer(Protocol):
    """One backend. `splittable` is False for monolithic renderers, which get row-wise waiting only."""

    splittable: bool

    def project(self, geometry: torch.Tensor, camera: Camera) -> Projection:
        """Project rows. geometry: float32 [M, 11] (columns.py order), may require grad."""
        ...

    def bin(self, projection: Projection, camera: Camera) -> Bins:
        """Assign rows to 16×16 tiles, in (depth, row) order."""
        ...

    def colour(self, geometry: torch.Tensor, sh: torch.Tensor, camera: Camera, degree: int) -> torch.Tensor:
        """RGB of each row, float32 [M, 3], clamped below at 0. sh: float32 [M, 48], coefficient-major."""
        ...

    def blend(
        self, projection: Projection, bins: Bins, rgb: torch.Tensor, camera: Camera, background: torch.Tensor
    ) -> Blended:
        """Front-to-back compositing. background: float32 [3]."""
        ...

    def blend_backward(
        self, projection: Projection, bins: Bins, rgb: torch.Tensor, blended: Blended, grad_image: torch.Tensor
    ) -> BlendGradients:
        """Backward of `blend` for dL/dimage, float32 [H, W, 3]; uses the forward's lists, never culls again."""
        ...

    def loss(self, image: torch.Tensor, photo: Any, weight: float) -> tuple[float | torch.Tensor, torch.Tensor]:
        """The photometric loss (1 - weight)·L1 + weight·(1 - SSIM) and its gradient, float32 [H, W, 3].

        photo: float32 [H, W, 3], 0…1, as the backend's place keeps it. A tensor [] where the host need not know."""
        ...
