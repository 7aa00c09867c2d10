"""The gsplat backend of `Renderer`: its tiles and its compositing behind our split calls.

Projection, culling and colours stay our own torch operations. gsplat's fused projection clamps the Jacobian's slopes
by the image's borders, which is another number than ours where the principal point is off centre, and culls by a rule
that has changed between its versions; scopes are proven supersets of OUR predicate (D§6 Scopes), so a row that a view
touches would not always be in its scope. Bits of a row do not depend on which others are handed in; sums over pixels
are atomic on CUDA, so gradients of the blend repeat to rounding only and nothing rendered here is called bit-identical.

Legend: M rows, E tile entries, H, W image size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from pipelines.camera import Camera
from pipelines.render import projection as ewa
from pipelines.render import sh as harmonics
from pipelines.render.conventions import TILE, tiles
from pipelines.render.device_loss import l1_dssim
from pipelines.render.gsplat.binding import Library, load
from pipelines.render.gsplat.scores import pixel_scores
from pipelines.render.protocol import Bins, Blended, BlendGradients, Projection


@dataclass(frozen=True, kw_only=True)
class TileEntries:
    """`Bins.data`. offsets: int32 [1, rows of tiles, columns]; ids: int32 [E]."""

    offsets: torch.Tensor
    ids: torch.Tensor


@dataclass(frozen=True, kw_only=True)
class BlendGraph:
    """`Blended.data`: the blend's output with its graph, and the leaves it starts from."""

    colours: torch.Tensor
    leaves: tuple[torch.Tensor, ...]


class GsplatRenderer:
    """`Renderer` on the device of its arguments; stateless.

    library: gsplat; the tests hand in a plain one. Raises InputError where there is none, or no device.
    """

    splittable = True

    def __init__(self, library: Library | None = None) -> None:
        self._gsplat = library or load()

    def project(self, geometry: torch.Tensor, camera: Camera) -> Projection:
        """Project rows. geometry: float32 [M, 11] (columns.py order), may require grad."""
        return ewa.project(geometry, camera)

    def bin(self, projection: Projection, camera: Camera) -> Bins:
        """Assign rows to 16×16 tiles, in (depth, row) order. gsplat stops the host here for the number of entries."""
        columns, rows = tiles(camera.width, camera.height)
        radii = torch.ceil(projection.extents).clamp(0.0, 1e9).to(torch.int32)
        _, keys, ids = self._gsplat.isect_tiles(
            projection.means2d.detach()[None], radii[None], projection.depths[None], TILE, columns, rows
        )
        offsets = self._gsplat.isect_offset_encode(keys, 1, columns, rows)
        return Bins(entries=len(ids), data=TileEntries(offsets=offsets, ids=ids))

    def colour(self, geometry: torch.Tensor, sh: torch.Tensor, camera: Camera, degree: int) -> torch.Tensor:
        """RGB of each row, float32 [M, 3], clamped below at 0. sh: float32 [M, 48], coefficient-major."""
        return harmonics.colour(geometry, sh, camera, degree)

    def blend(
        self, projection: Projection, bins: Bins, rgb: torch.Tensor, camera: Camera, background: torch.Tensor
    ) -> Blended:
        """Front-to-back compositing. background: float32 [3]. `fragments` counts every pixel of a listed tile: how many
        were composited stays on the device."""
        lists: TileEntries = bins.data
        inputs = (projection.means2d, projection.conics, rgb, projection.opacities)
        leaves = tuple(x.detach()[None].requires_grad_() for x in inputs)
        means2d, conics, colours, opacities = leaves
        with torch.enable_grad():
            image, alpha = self._gsplat.rasterize_to_pixels(
                means2d,
                conics,
                colours,
                opacities,
                camera.width,
                camera.height,
                TILE,
                lists.offsets,
                lists.ids,
                backgrounds=background[None],
            )
        return Blended(
            image=image.detach()[0],
            alpha=alpha.detach()[0, ..., 0],
            fragments=bins.entries * TILE * TILE,
            data=BlendGraph(colours=image, leaves=leaves),
        )

    def blend_backward(
        self, projection: Projection, bins: Bins, rgb: torch.Tensor, blended: Blended, grad_image: torch.Tensor
    ) -> BlendGradients:
        """Backward of `blend` for dL/dimage, float32 [H, W, 3]. `contributed`: the row's colour has a gradient."""
        graph: BlendGraph = blended.data
        means2d, conics, colours, opacities = torch.autograd.grad(graph.colours, graph.leaves, grad_image[None])
        return BlendGradients(
            means2d=means2d[0],
            conics=conics[0],
            rgb=colours[0],
            opacities=opacities[0],
            contributed=(colours[0] != 0).any(dim=1),
        )

    def pixel_scores(self, bins: Bins, blended: Blended, weights: torch.Tensor) -> torch.Tensor:
        """Sums over pixels, float64 [M, 4] (`scores.pixel_scores`). weights: float32 [H, W]"""
        graph: BlendGraph = blended.data
        means2d, conics, _, opacities = (leaf.detach()[0] for leaf in graph.leaves)
        lists: TileEntries = bins.data
        return pixel_scores((means2d, conics, opacities), lists.offsets, lists.ids, weights)

    def loss(self, image: torch.Tensor, photo: Any, weight: float) -> tuple[torch.Tensor, torch.Tensor]:
        """The photometric loss and its gradient, in torch operations."""
        return l1_dssim(image, photo, weight)
