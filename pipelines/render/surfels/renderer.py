"""`SurfelBackend` on one CPU thread, from Numba kernels.

Legend: M rows, E list entries, T tiles, H, W image size.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from pipelines.camera import Camera
from pipelines.render.conventions import tiles
from pipelines.render.cpu.bin_kernels import BUCKETS, depth_order, fill_lists, tile_boxes
from pipelines.render.cpu.renderer import BlendState, TileLists
from pipelines.render.cpu.sh_kernels import colour_rows, colour_rows_backward
from pipelines.render.protocol import Bins
from pipelines.render.sh import check_degree
from pipelines.render.ssim import l1_dssim
from pipelines.render.surfels.adjoint_kernels import ADJOINT_PLANES, SUMS, blend_adjoint, surfel_gradients
from pipelines.render.surfels.blend_kernels import FORWARD_PLANES, PACKED, blend, pack_surfels
from pipelines.render.surfels.projection_kernels import project_surfels, project_surfels_backward
from pipelines.render.surfels.protocol import MAPS, SurfelBlended, SurfelGradients, SurfelProjection, Weights
from pipelines.render.surfels.regularise import regularise
from pipelines.render.vectors import Vec
from pipelines.render.view import pack_camera

_MAPS = 10  # channels of the forward's maps (`blend_kernels`)


class SurfelRenderer:
    """`SurfelBackend`; stateless, so threads may share it.

    The bits of a row's outputs and gradients, and of the image, do not depend on which other rows are handed in
    as long as the touched ones are.
    """

    splittable = True

    def project(self, geometry: torch.Tensor, camera: Camera) -> SurfelProjection:
        """Project rows. geometry: float32 [M, 10] (surfel_columns.py order); ValueError if it is not."""
        rows = _checked(geometry, 10, "geometry")
        count = len(rows)
        means, middles, extents = (torch.zeros(count, 2) for _ in range(3))
        transforms, normals = torch.zeros(count, 8), torch.zeros(count, 3)
        opacities, depths = torch.zeros(count), torch.zeros(count)
        radii = torch.zeros(count, dtype=torch.int32)
        outputs = (means, transforms, normals, opacities, depths, middles, extents, radii)
        project_surfels(rows.numpy(), pack_camera(camera), *(x.numpy() for x in outputs))
        return SurfelProjection(
            means2d=means,
            transforms=transforms,
            normals=normals,
            opacities=opacities,
            depths=depths,
            middles=middles,
            extents=extents,
            radii=radii,
        )

    def project_backward(
        self, geometry: torch.Tensor, camera: Camera, projection: SurfelProjection, grads: SurfelGradients
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradient of the geometry, float32 [M, 10], and the densification statistic, float32 [M, 2]."""
        rows = _checked(geometry, 10, "geometry")
        out, centres = torch.zeros_like(rows), torch.zeros(len(rows), 2)
        inputs = (grads.means2d, grads.transforms, grads.normals, grads.depths, grads.opacities)
        project_surfels_backward(
            rows.numpy(),
            pack_camera(camera),
            projection.opacities.numpy(),
            grads.contributed.numpy(),
            *(x.contiguous().numpy() for x in inputs),
            out.numpy(),
            centres.numpy(),
        )
        return out, centres

    def bin(self, projection: SurfelProjection, camera: Camera) -> Bins:
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
        entries = tile_boxes(order, visible, projection.middles.numpy(), extents, columns, rows, boxes, starts)
        lists = np.empty(entries, np.int32)
        fill_lists(order, visible, boxes, columns, starts[:-1].copy(), lists)
        return Bins(entries=entries, data=TileLists(columns=columns, starts=starts, rows=lists))

    def colour(self, geometry: torch.Tensor, sh: torch.Tensor, camera: Camera, degree: int) -> torch.Tensor:
        """RGB of each row, float32 [M, 3], clamped below at 0. Raises ValueError for a degree outside 0–3."""
        rows, coefficients = _checked(geometry, 10, "geometry"), _checked(sh, 48, "sh")
        rgb = torch.empty(len(rows), 3)
        colour_rows(rows.numpy(), coefficients.numpy(), _centre(camera), _terms(degree), np.empty(16), rgb.numpy())
        return rgb

    def colour_backward(
        self,
        geometry: torch.Tensor,
        sh: torch.Tensor,
        camera: Camera,
        degree: int,
        rgb: torch.Tensor,
        grad: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradients of geometry, float32 [M, 10] (only the first three columns are not zero), and sh [M, 48]."""
        rows, coefficients = _checked(geometry, 10, "geometry"), _checked(sh, 48, "sh")
        # The kernel fills the 11 columns of a 3D Gaussian.
        wide, grad_sh = torch.empty(len(rows), 11), torch.empty_like(coefficients)
        colour_rows_backward(
            rows.numpy(),
            coefficients.numpy(),
            _centre(camera),
            _terms(degree),
            np.empty(16),
            np.zeros(16),
            rgb.numpy(),
            grad.contiguous().numpy(),
            wide.numpy(),
            grad_sh.numpy(),
        )
        return wide[:, :10], grad_sh

    def blend(
        self, projection: SurfelProjection, bins: Bins, rgb: torch.Tensor, camera: Camera, background: torch.Tensor
    ) -> SurfelBlended:
        """Front-to-back compositing. background: float32 [3]."""
        lists: TileLists = bins.data
        packed = np.zeros((len(rgb), PACKED), np.float32)
        p = projection
        inputs = (p.means2d, p.transforms, p.normals, p.opacities, p.depths, rgb.contiguous(), p.middles, p.extents)
        pack_surfels(*(x.numpy() for x in inputs), packed)
        stops, bands = np.empty(len(lists.starts) - 1, np.int32), np.empty((bins.entries, 4), np.uint8)
        image = torch.empty(camera.height, camera.width, 3)
        maps = torch.empty(camera.height, camera.width, _MAPS)
        fragments = blend(
            packed,
            lists.starts,
            lists.rows,
            lists.columns,
            np.empty(FORWARD_PLANES, np.float32),
            background.detach().contiguous().numpy(),
            image.numpy(),
            maps.numpy(),
            stops,
            bands,
        )
        return SurfelBlended(
            image=image,
            alpha=maps[..., 0],
            depth=maps[..., 1],
            median=maps[..., 2],
            distortion=maps[..., 3],
            normal=maps[..., 4:7],
            fragments=fragments,
            data=(maps, BlendState(packed=packed, stops=stops, bands=bands)),
        )

    def blend_backward(
        self,
        projection: SurfelProjection,
        bins: Bins,
        blended: SurfelBlended,
        grad_image: torch.Tensor,
        grad_maps: torch.Tensor,
    ) -> SurfelGradients:
        """Backward of `blend`; `blended` must be as `blend` returned it."""
        if grad_maps.shape != (*blended.alpha.shape, MAPS):
            raise ValueError(f"grad_maps is {list(grad_maps.shape)}, expected [H, W, {MAPS}]")
        lists: TileLists = bins.data
        maps, state = blended.data
        count = len(state.packed)
        moments = np.zeros((count, SUMS), np.float32)
        blend_adjoint(
            state.packed,
            lists.starts,
            lists.rows,
            lists.columns,
            np.empty(ADJOINT_PLANES, np.float32),
            blended.image.numpy(),
            maps.numpy(),
            grad_image.contiguous().numpy(),
            grad_maps.contiguous().numpy(),
            state.stops,
            state.bands,
            moments,
        )
        grads = SurfelGradients(
            means2d=torch.zeros(count, 2),
            transforms=torch.zeros(count, 8),
            normals=torch.zeros(count, 3),
            depths=torch.zeros(count),
            rgb=torch.zeros(count, 3),
            opacities=torch.zeros(count),
            contributed=torch.zeros(count, dtype=torch.bool),
        )
        outputs = (grads.means2d, grads.transforms, grads.normals, grads.depths, grads.rgb, grads.opacities)
        surfel_gradients(moments, state.packed, *(x.numpy() for x in outputs), grads.contributed.numpy())
        return grads

    def loss(
        self, blended: SurfelBlended, photo: NDArray[np.float32], weight: float, camera: Camera, weights: Weights
    ) -> tuple[float, torch.Tensor, torch.Tensor]:
        """See `SurfelBackend`: in kernels with closed-form gradients."""
        loss, gradient = l1_dssim(blended.image, photo, weight)
        geometric, maps = regularise(blended, camera, weights)
        return loss + geometric, gradient, maps


def _centre(camera: Camera) -> Vec:
    x, y, z = map(float, camera.centre)
    return x, y, z


def _terms(degree: int) -> int:
    return (check_degree(degree) + 1) ** 2


def _checked(rows: torch.Tensor, columns: int, name: str) -> torch.Tensor:
    """Contiguous rows; another type would make Numba compile every kernel again, silently."""
    if rows.dtype != torch.float32 or rows.ndim != 2 or rows.shape[1] != columns or rows.device.type != "cpu":
        given = f"{rows.dtype} {list(rows.shape)} on {rows.device}"
        raise ValueError(f"{name} is {given}, expected torch.float32 [M, {columns}] on cpu")
    return rows.detach().contiguous()
