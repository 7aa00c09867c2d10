"""Vector-Jacobian products of a view's graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def pull_back(
    outputs: Sequence[torch.Tensor],
    gradients: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    *,
    retain_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[torch.Tensor, ...]:
    """`torch.autograd.grad(outputs, inputs, gradients)` to the bit, of `gradients` shaped like `outputs`.

    torch compares the shapes of given gradients symbolically, for which every rank would import sympy: 1.1 s of CPU.
    A scalar that hands the gradients on needs none.
    """
    return torch.autograd.grad(
        _Seed.apply(tuple(gradients), *outputs), inputs, retain_graph=retain_graph, allow_unused=allow_unused
    )


class _Seed(torch.autograd.Function):
    """A scalar whose derivatives are the given gradients; ∂scalar/∂scalar is 1, so nothing is multiplied."""

    @staticmethod
    def forward(ctx: Any, gradients: tuple[torch.Tensor, ...], *outputs: torch.Tensor) -> torch.Tensor:
        ctx.gradients = gradients
        return outputs[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> Any:
        return None, *ctx.gradients
