"""Compile and cache all kernels before ranks or clocks start."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from odin.bitmap import row_ids, summary
from odin.hazards import classify
from odin.inflation import Inflation
from odin.publication.layout import Classes, Cutting, lay_out
from pipelines.camera import Camera
from pipelines.render.cpu.renderer import CpuRenderer
from pipelines.render.cull import cull_packed
from pipelines.render.protocol import Renderer
from pipelines.render.ssim import l1_dssim


def warm_up() -> None:
    """Run every kernel once on a row or two and 16×16 pixels: 20 s of compilation at first, 1 s from the cache."""
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
    _scopes(camera)
    renderer: Renderer = CpuRenderer()
    geometry, sh = torch.zeros(1, 11), torch.zeros(1, 48)
    geometry[0, 2] = geometry[0, 6] = 1.0
    geometry.requires_grad_()
    sh.requires_grad_()
    projection = renderer.project(geometry, camera)
    bins = renderer.bin(projection, camera)
    rgb = renderer.colour(geometry, sh, camera, 3)
    blended = renderer.blend(projection, bins, rgb, camera, torch.zeros(3))
    _, grad_image = l1_dssim(blended.image, torch.zeros(16, 16, 3))
    grads = renderer.blend_backward(projection, bins, rgb, blended, grad_image)
    torch.autograd.backward(
        [projection.means2d, projection.conics, projection.opacities, rgb],
        [grads.means2d, grads.conics, grads.opacities, grads.rgb],
    )


def _scopes(camera: Camera) -> None:
    """Cull, hazard pass and cut, on two rows of a wider table: for Numba another type than a contiguous one."""
    geometry = torch.zeros(2, 12)[:, :11]
    warm_hazards(cull_packed(geometry, [camera], Inflation.none(2)))


def warm_hazards(bits: NDArray[np.uint64]) -> None:
    """The hazard pass on the scope of one view of two rows, uint64 [1, 1]."""
    row_ids(bits[0], 2)
    summary(bits)
    last, first, _ = classify(bits, bits, bits, bits, ranks=1, unit=1, rows=2)
    lay_out(Classes(last=last, need=first), Cutting(unit=1, groups=2, split=True, early=0, lead=0))
