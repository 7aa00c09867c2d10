"""One view on its way through a fork's renderer.

Legend: M rows of the view, D columns, H, W image size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from pipelines.place import HOST, Place, Rows


@dataclass(kw_only=True)
class ForkFrame:
    """A view of `rows`: a shallow copy of the fork's model whose parameters are those of these rows alone, and what the
    fork's renderer said of them.

    leaves:   parameters by attribute of GaussianModel, which the gradients come to
    gradient: float32 [M, D], once it has been rendered
    image:    float32 [3, H, W]
    radii:    int [M], 0 where a row is not drawn
    """

    view: int
    place: Place
    rows: Rows
    model: Any
    leaves: dict[str, torch.nn.Parameter]
    gradient: torch.Tensor | None = None
    image: torch.Tensor | None = None
    radii: torch.Tensor | None = None

    @property
    def visible(self) -> Rows:
        """Rows that the view draws, bool [M]."""
        assert self.radii is not None
        return self.place.array(self.radii > 0)

    @property
    def active(self) -> Rows:
        """Rows with a gradient in any column, bool [M]."""
        assert self.gradient is not None
        return self.place.array((self.gradient != 0).any(dim=1))

    @property
    def fragments(self) -> int:
        """Rows drawn: no fork's renderer says how many fragments it composited. 0 on a device, where the host would
        wait for it, in the one arm that asks."""
        assert self.radii is not None
        return int((self.radii > 0).sum()) if self.place is HOST else 0
