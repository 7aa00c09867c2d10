"""Compile and cache the surfel kernels before ranks or clocks start."""

from __future__ import annotations

import numpy as np
import torch

from odin.inflation import Inflation
from pipelines.camera import Camera
from pipelines.render.cpu.warm import warm_hazards
from pipelines.render.ssim import l1_dssim
from pipelines.render.surfels.cull import cull_packed
from pipelines.render.surfels.protocol import SurfelBackend, Weights
from pipelines.render.surfels.regularise import regularise
from pipelines.render.surfels.renderer import SurfelRenderer


def warm_up_surfels() -> None:
    """Run every kernel of 2DGS training once on one row and 16×16 pixels."""
    camera = Camera(
        name="warm-up",
        width=16,
        height=16,
        fx=16.0,
        fy=16.0,
        cx=8.0,
        cy=8.0,
        rotation=np.eye(3),
        translation=np.zeros(3),
    )
    renderer: SurfelBackend = SurfelRenderer()
    # A slice of a wider table, as in training.
    warm_hazards(cull_packed(torch.zeros(2, 11)[:, :10], [camera], Inflation.none(2)))
    geometry, sh = torch.zeros(1, 10), torch.zeros(1, 48)
    geometry[0, 2] = geometry[0, 5] = 1.0
    projection = renderer.project(geometry, camera)
    bins = renderer.bin(projection, camera)
    rgb = renderer.colour(geometry, sh, camera, 3)
    blended = renderer.blend(projection, bins, rgb, camera, torch.zeros(3))
    _, grad_image = l1_dssim(blended.image, torch.zeros(16, 16, 3))
    _, maps = regularise(blended, camera, Weights(normal=1.0, distortion=1.0, depth_ratio=0.5))
    grads = renderer.blend_backward(projection, bins, blended, grad_image, maps)
    renderer.colour_backward(geometry, sh, camera, 3, rgb, grads.rgb)
    renderer.project_backward(geometry, camera, projection, grads)
