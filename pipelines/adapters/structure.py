"""Structural events on a fork's model: state in, state out, and which row became which.

Legend: N rows of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from odin.table import ParameterTable
from pipelines.adapters.mapping import TensorMapping


def groups_of(model: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Every parameter group of a model's optimizers, with its optimizer."""
    for optimizer in (model.optimizer, getattr(model, "shoptimizer", None)):
        if optimizer is not None:
            yield from ((optimizer, group) for group in optimizer.param_groups)


def laid_in(model: Any, tensors: TensorMapping, table: ParameterTable) -> None:
    """Give the model and its optimizers the table's parameters, moments and counter."""
    groups = {group["name"]: (optimizer, group) for optimizer, group in groups_of(model)}
    for kind in tensors.kinds:
        leaf = nn.Parameter(kind.of(table.parameters).clone())
        optimizer, group = groups[kind.group]
        for old in group["params"]:
            optimizer.state.pop(old, None)
        group["params"][:] = [leaf]
        moments = {"exp_avg": kind.of(table.m).clone(), "exp_avg_sq": kind.of(table.v).clone()}
        optimizer.state[leaf] = {"step": torch.tensor(float(table.t)), **moments}
        setattr(model, kind.attribute, leaf)


def taken_out(model: Any, tensors: TensorMapping) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Parameters and both moments as the model and its optimizers have them now, each float32 [N, D]."""
    groups = {group["name"]: (optimizer, group) for optimizer, group in groups_of(model)}
    p, m, v = {}, {}, {}
    for kind in tensors.kinds:
        optimizer, group = groups[kind.group]
        state = optimizer.state[group["params"][0]]
        # Not the group's: TamingGS takes opacities out of the optimizer at last.
        p[kind.attribute] = getattr(model, kind.attribute).detach()
        m[kind.attribute], v[kind.attribute] = state["exp_avg"], state["exp_avg_sq"]
    return tensors.table(p), tensors.table(m), tensors.table(v)


class Followed:
    """Follows rows through a model's `prune_points` and `densification_postfix`, which all forks change them by.

    source: int64 [N], the row that each one was at first, -1 for added ones
    """

    def __init__(self, model: Any, rows: int) -> None:
        self._model, self.source = model, np.arange(rows, dtype=np.int64)

    def __enter__(self) -> Followed:
        model = self._model
        model.prune_points = self._pruning(model.prune_points)
        model.densification_postfix = self._growing(model.densification_postfix)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del self._model.prune_points, self._model.densification_postfix

    def _pruning(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def prune_points(mask: torch.Tensor, *rest: Any, **named: Any) -> Any:
            kept: NDArray[np.bool_] = ~mask.cpu().numpy()
            self.source = self.source[kept]
            return original(mask, *rest, **named)

        return prune_points

    def _growing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def densification_postfix(*given: Any, **named: Any) -> Any:
            before = len(self._model.get_xyz)
            answer = original(*given, **named)
            added = np.full(len(self._model.get_xyz) - before, -1, np.int64)
            self.source = np.concatenate([self.source, added])
            return answer

        return densification_postfix
