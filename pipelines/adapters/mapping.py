"""Columns of the table and tensors of a fork's GaussianModel.

Both keep the same numbers: positions, log-scales, quaternions wxyz, logits of opacity, SH coefficient-major. A fork
has a tensor for each kind, the table has them side by side.

Legend: N rows, D columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from odin.layout import ColumnLayout
from pipelines import columns, surfel_columns
from pipelines.reference.threedgs import LAYOUT


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of parameter.

    group:     name of its parameter group in a fork's optimizer
    attribute: of GaussianModel
    columns:   of the table
    shape:     of one row's tensor
    """

    group: str
    attribute: str
    columns: slice
    shape: tuple[int, ...]

    def of(self, table: torch.Tensor) -> torch.Tensor:
        """The kind's part of a table [N, D], as a view of it in the fork's shape."""
        return table[:, self.columns].unflatten(1, self.shape)


@dataclass(frozen=True, kw_only=True)
class TensorMapping:
    """All kinds of a fork's primitives, in column order."""

    kinds: tuple[Kind, ...]
    layout: ColumnLayout
    geometry: int  # how many of the kinds are geometry

    @property
    def by_name(self) -> Mapping[str, slice]:
        """Columns by the names that recipes use."""
        names = {"scaling": "scale"}
        return {names.get(kind.group, kind.group): kind.columns for kind in self.kinds}

    def leaves(self, rows: torch.Tensor) -> dict[str, nn.Parameter]:
        """Attributes over the storage of `rows` [N, D]. They alias its `.data`: they have gradients of their own, and
        no version counter in common with it."""
        return {kind.attribute: nn.Parameter(kind.of(rows.data)) for kind in self.kinds}

    def table(self, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Tensors by attribute side by side, [N, D]."""
        return torch.cat([tensors[kind.attribute].flatten(1) for kind in self.kinds], dim=1)


def _mapping(at: Any, layout: ColumnLayout) -> TensorMapping:
    scales = at.SCALE.stop - at.SCALE.start
    shapes: tuple[tuple[str, str, str, tuple[int, ...]], ...] = (
        ("xyz", "_xyz", "XYZ", (3,)),
        ("scaling", "_scaling", "SCALE", (scales,)),
        ("rotation", "_rotation", "ROTATION", (4,)),
        ("opacity", "_opacity", "OPACITY", (1,)),
        ("f_dc", "_features_dc", "F_DC", (1, 3)),
        ("f_rest", "_features_rest", "F_REST", (15, 3)),
    )
    kinds = tuple(Kind(group=g, attribute=a, columns=getattr(at, name), shape=s) for g, a, name, s in shapes)
    return TensorMapping(kinds=kinds, layout=layout, geometry=4)


GAUSSIANS = _mapping(columns, LAYOUT)
SURFELS = _mapping(surfel_columns, surfel_columns.LAYOUT)
