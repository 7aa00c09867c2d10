"""Projected rows as they travel between owners and ranks, and a view as its owner keeps it (D§6 Mixed parallel).

Legend: m rows of a view at its owner, M at the rank that renders it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from odin.memory import Holding, MemoryCategory
from pipelines.render.protocol import BlendGradients, Projection

# What travels of a projected row: centre, conic, opacity, colour, depth, extents. Its gradient: the first nine.
MEANS, CONICS, OPACITIES, RGB, DEPTHS, EXTENTS = (
    slice(0, 2),
    slice(2, 5),
    slice(5, 6),
    slice(6, 9),
    slice(9, 10),
    slice(10, 12),
)
PROJECTED, GRADIENT = 12, 9


@dataclass(kw_only=True)
class OwnedView:
    """A view as an owner has projected it, with the leaves that its backward needs.

    rows:  int32 [m], the rows that are sent; kept: int64 [m], where they stand among the projected ones, as an index
    """

    view: int
    rows: NDArray[np.int32]
    kept: torch.Tensor
    geometry: torch.Tensor
    sent_geometry: torch.Tensor
    sh: torch.Tensor
    rgb: torch.Tensor
    projection: Projection
    projected: torch.Tensor
    direction_gradient: torch.Tensor | None = None

    def holdings(self) -> Iterator[Holding]:
        """The values that were projected (`odin.memory`)."""
        for tensor in (self.geometry, self.sent_geometry, self.sh, self.projected):
            yield MemoryCategory.OTHER, tensor


def received(projected: torch.Tensor) -> Projection:
    """Projected rows as they travel, float32 [M, 12], for the renderer."""
    extents = projected[:, EXTENTS].contiguous()
    return Projection(
        means2d=projected[:, MEANS].contiguous(),
        conics=projected[:, CONICS].contiguous(),
        opacities=projected[:, OPACITIES].reshape(-1).contiguous(),
        depths=projected[:, DEPTHS].reshape(-1).contiguous(),
        extents=extents,
        radii=torch.ceil(extents.amax(dim=1)).clamp(min=0.0, max=1e9).to(torch.int32),
    )


def joined(back: BlendGradients) -> torch.Tensor:
    """Gradients of the blend as they travel, float32 [M, 9]."""
    return torch.cat([back.means2d, back.conics, back.opacities[:, None], back.rgb], dim=1)
