"""The module that DistributedDataParallel wraps: two leaves, and autograd nodes that hand them their gradients.

Recipes go backward by hand, colours first. Two nodes put those calls into autograd's graph, so that DDP sees what it
sees of any model: gradients that reach its leaves one after the other while backward still runs.

Legend: N rows of the table, C columns of a group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

from odin.table import ParameterTable

Gradient = Callable[[], torch.Tensor]


class ViewPass(Protocol):
    """One view's way through a step. The calls come in the order in which they stand here."""

    def forward(self) -> float:
        """Project and render; the view's loss."""
        ...

    def colours(self) -> torch.Tensor:
        """Gradient of the colour columns, float32 [N, 48], zero in rows that the view does not touch."""
        ...

    def geometry(self) -> torch.Tensor:
        """Gradient of the geometry columns, float32 [N, 11], likewise."""
        ...


class Leaves(torch.nn.Module):
    """`geometry` [N, 11] and `colours` [N, 48] alias the table's columns, whose rows are 59 apart: no value is copied.

    The recipe reads the table itself, so the leaves only carry gradients. Those are dense and contiguous, because
    DDP lays out the bucket of a strided parameter row by row.
    """

    def __init__(self, table: ParameterTable) -> None:
        super().__init__()
        geometry, *colours = table.layout.groups
        self.geometry = torch.nn.Parameter(table.parameters[:, geometry.first : geometry.last])
        self.colours = torch.nn.Parameter(table.parameters[:, colours[0].first : colours[-1].last])

    def forward(self, view: ViewPass) -> torch.Tensor:
        """The view's loss, a float64 scalar whose backward calls `colours`, then `geometry`."""
        loss = torch.tensor(view.forward(), dtype=torch.float64)
        loss = _Stage.apply(self.geometry, loss, view.geometry)
        return _Stage.apply(self.colours, loss, view.colours)


class _Stage(torch.autograd.Function):
    """Passes the loss through; its backward gives `leaf` the gradient that it calls for.

    Stages are chained, so the colours' runs before the geometry's, as it must: it leaves the view direction's share
    there. In between autograd adds the gradient to the leaf, because it takes accumulation before any other node
    that is ready; that is when DDP launches the leaf's bucket.
    """

    @staticmethod
    def forward(ctx: Any, leaf: torch.Tensor, loss: torch.Tensor, gradient: Gradient) -> torch.Tensor:
        ctx.gradient = gradient
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *losses: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        return ctx.gradient(), losses[0], None  # ∂loss/∂loss is 1 (loss.backward()), so nothing is multiplied
