"""The CPU backend of `Renderer`: fused row kernels under autograd, tile kernels called directly.

Legend: M rows, E list entries, T tiles, H, W image size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pipelines.camera import Camera
from pipelines.render.conventions import tiles
from pipelines.render.cpu.bin_kernels import BUCKETS, depth_order, fill_lists, tile_boxes
from pipelines.render.cpu.blend_kernels import (
    ADJOINT_PLANES,
    FORWARD_PLANES,
    PACKED,
    blend,
    blend_adjoint,
    pack_rows,
    row_gradients,
)
from pipelines.render.cpu.projection_kernels import project_rows, project_rows_backward
from pipelines.render.cpu.score_kernels import score_rows
from pipelines.render.cpu.sh_kernels import colour_rows, colour_rows_backward
from pipelines.render.protocol import Bins, Blended, BlendGradients, Projection
from pipelines.render.sh import check_degree
from pipelines.render.ssim import l1_dssim
from pipelines.render.vectors import Vec
from pipelines.render.view import pack_camera


@dataclass(frozen=True, kw_only=True)
class TileLists:
    """`Bins.data`: tile t lists rows[starts[t]:starts[t + 1]]; tiles are row-major, `columns` in a row.

    starts: int32 [T + 1]; rows: int32 [E]
    """

    columns: int
    starts: NDArray[np.int32]
    rows: NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class BlendState:
    """`Blended.data`: what the adjoint replays.

    packed: float32 [M, 16]; stops: int32 [T]; bands: uint8 [E, 4]
    """

    packed: NDArray[np.float32]
    stops: NDArray[np.int32]
    bands: NDArray[np.uint8]


class _Project(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, geometry: torch.Tensor, view: NDArray[np.float64]) -> tuple[torch.Tensor, ...]:
        rows = geometry.shape[0]
        outputs = [
            torch.empty(shape, dtype=torch.float32) for shape in ((rows, 2), (rows, 3), (rows,), (rows,), (rows, 2))
        ]
        radii = torch.empty(rows, dtype=torch.int32)
        project_rows(geometry.numpy(), view, *(x.numpy() for x in outputs), radii.numpy())
        ctx.view = view
        ctx.save_for_backward(geometry, outputs[2])
        ctx.mark_non_differentiable(outputs[3], outputs[4], radii)
        return (*outputs, radii)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        geometry, opacities = ctx.saved_tensors
        out = torch.zeros_like(geometry)
        inputs = [grad.contiguous().numpy() for grad in grads[:3]]
        project_rows_backward(geometry.numpy(), ctx.view, opacities.numpy(), *inputs, out.numpy())
        return out, None


class _Colour(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, geometry: torch.Tensor, sh: torch.Tensor, centre: Vec, terms: int) -> torch.Tensor:
        rgb = torch.empty_like(geometry[:, :3], memory_format=torch.contiguous_format)
        colour_rows(geometry.numpy(), sh.numpy(), centre, terms, np.empty(16), rgb.numpy())
        ctx.centre, ctx.terms = centre, terms
        ctx.save_for_backward(geometry, sh, rgb)
        return rgb

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None, None]:
        geometry, sh, rgb = ctx.saved_tensors
        grad_geometry, grad_sh = torch.empty_like(geometry), torch.empty_like(sh)
        colour_rows_backward(
            geometry.numpy(),
            sh.numpy(),
            ctx.centre,
            ctx.terms,
            np.empty(16),
            np.zeros(16),
            rgb.numpy(),
            grads[0].contiguous().numpy(),
            grad_geometry.numpy(),
            grad_sh.numpy(),
        )
        return grad_geometry, grad_sh, None, None


def _checked(rows: torch.Tensor, columns: int, name: str) -> torch.Tensor:
    """Contiguous rows; another type would make Numba compile every kernel again, silently."""
    if rows.dtype != torch.float32 or rows.ndim != 2 or rows.shape[1] != columns or rows.device.type != "cpu":
        given = f"{rows.dtype} {list(rows.shape)} on {rows.device}"
        raise ValueError(f"{name} is {given}, expected torch.float32 [M, {columns}] on cpu")
    return rows.contiguous()


class CpuRenderer:
    """`Renderer` on one CPU thread; stateless, so threads may share it.

    The bits of a row's outputs and gradients, and of the image, do not depend on which other rows are handed in
    as long as the touched ones are.
    """

    splittable = True

    def project(self, geometry: torch.Tensor, camera: Camera) -> Projection:
        """Project rows. geometry: float32 [M, 11] (columns.py order), may require grad; ValueError if it is not."""
        means2d, conics, opacities, depths, extents, radii = _Project.apply(
            _checked(geometry, 11, "geometry"), pack_camera(camera)
        )
        return Projection(
            means2d=means2d, conics=conics, opacities=opacities, depths=depths, extents=extents, radii=radii
        )

    def bin(self, projection: Projection, camera: Camera) -> Bins:
        """Assign rows to 16×16 tiles, in (depth, row) order."""
        columns, rows = tiles(camera.width, camera.height)
        count = len(projection.depths)
        order, boxes = np.empty(count, np.int32), np.empty((count, 4), np.int32)
        starts = np.zeros(columns * rows + 1, np.int32)
        extents = projection.extents.numpy()
        visible = depth_order(
            projection.depths.numpy(),
            extents,
            order,
            np.empty(count, np.uint32),
            np.empty(count, np.int32),
            np.empty(count, np.uint32),
            np.empty(BUCKETS + 1, np.int32),
        )
        entries = tile_boxes(order, visible, projection.means2d.detach().numpy(), extents, columns, rows, boxes, starts)
        lists = np.empty(entries, np.int32)
        fill_lists(order, visible, boxes, columns, starts[:-1].copy(), lists)
        return Bins(entries=entries, data=TileLists(columns=columns, starts=starts, rows=lists))

    def colour(self, geometry: torch.Tensor, sh: torch.Tensor, camera: Camera, degree: int) -> torch.Tensor:
        """RGB of each row, float32 [M, 3], clamped below at 0. sh: float32 [M, 48], coefficient-major.

        Raises ValueError for a degree outside 0–3 and for other shapes or types.
        """
        terms = (check_degree(degree) + 1) ** 2
        rows = _checked(geometry, 11, "geometry"), _checked(sh, 48, "sh")
        rgb: torch.Tensor = _Colour.apply(*rows, tuple(map(float, camera.centre)), terms)
        return rgb

    def blend(
        self, projection: Projection, bins: Bins, rgb: torch.Tensor, camera: Camera, background: torch.Tensor
    ) -> Blended:
        """Front-to-back compositing. background: float32 [3]."""
        lists: TileLists = bins.data
        packed = np.zeros((len(rgb), PACKED), np.float32)
        pack_rows(
            projection.means2d.detach().numpy(),
            projection.conics.detach().numpy(),
            projection.opacities.detach().numpy(),
            rgb.detach().contiguous().numpy(),
            projection.extents.numpy(),
            packed,
        )
        state = BlendState(
            packed=packed,
            stops=np.empty(len(lists.starts) - 1, np.int32),
            bands=np.empty((bins.entries, 4), np.uint8),
        )
        size, kind = (camera.height, camera.width), torch.float32
        image, alpha = torch.empty(*size, 3, dtype=kind), torch.empty(size, dtype=kind)
        fragments = blend(
            packed,
            lists.starts,
            lists.rows,
            lists.columns,
            np.empty(FORWARD_PLANES, np.float32),
            background.detach().contiguous().numpy(),
            image.numpy(),
            alpha.numpy(),
            state.stops,
            state.bands,
        )
        return Blended(image=image, alpha=alpha, fragments=fragments, data=state)

    def blend_backward(
        self, projection: Projection, bins: Bins, rgb: torch.Tensor, blended: Blended, grad_image: torch.Tensor
    ) -> BlendGradients:
        """Backward of `blend` for dL/dimage, float32 [H, W, 3]; `blended.image` must be as `blend` returned it."""
        lists: TileLists = bins.data
        state: BlendState = blended.data
        moments = torch.zeros(len(state.packed), 10, dtype=torch.float32)
        blend_adjoint(
            state.packed,
            lists.starts,
            lists.rows,
            lists.columns,
            np.empty(ADJOINT_PLANES, np.float32),
            blended.image.numpy(),
            grad_image.contiguous().numpy(),
            state.stops,
            state.bands,
            moments.numpy(),
        )
        grads = [torch.zeros_like(x) for x in (projection.means2d, projection.conics, projection.opacities)]
        row_gradients(
            moments.numpy(),
            projection.conics.detach().numpy(),
            projection.opacities.detach().numpy(),
            *(x.numpy() for x in grads),
        )
        return BlendGradients(
            means2d=grads[0],
            conics=grads[1],
            opacities=grads[2],
            rgb=moments[:, 6:9].contiguous(),
            contributed=moments[:, 9] > 0.0,
        )

    def loss(self, image: torch.Tensor, photo: Any, weight: float) -> tuple[float, torch.Tensor]:
        """The photometric loss and its gradient (`ssim.l1_dssim`)."""
        return l1_dssim(image, photo, weight)

    def pixel_scores(self, bins: Bins, blended: Blended, weights: torch.Tensor) -> torch.Tensor:
        """Sums over the pixels that each row contributes to, float64 [M, 4]: of the pixels' weights (float32 [H, W]),
        their number, alpha · transmittance, and distances to the row's centre in pixels."""
        lists: TileLists = bins.data
        state: BlendState = blended.data
        sums = torch.zeros(len(state.packed), 4, dtype=torch.float64)
        score_rows(
            state.packed,
            lists.starts,
            lists.rows,
            lists.columns,
            np.empty(FORWARD_PLANES, np.float32),
            weights.contiguous().numpy(),
            state.stops,
            state.bands,
            sums.numpy(),
        )
        return sums
