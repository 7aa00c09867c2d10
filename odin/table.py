"""The parameter table Θ with its Adam moments: what every rank holds a replica of.

Legend: N primitives, D columns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from odin.layout import ColumnLayout
from odin.memory import Holding, MemoryCategory
from odin.rows import Moments


class ParameterTable:
    """Parameters and moments, each float32 [N, D]; `t` counts optimizer steps applied or launched."""

    def __init__(self, parameters: torch.Tensor, layout: ColumnLayout) -> None:
        self.layout = layout
        self.t = 0
        self.replace(parameters, torch.zeros_like(parameters), torch.zeros_like(parameters))

    def replace(self, parameters: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> None:
        """Install new storage after a structural event; all three float32 [N, D]."""
        self.parameters = parameters.detach().contiguous()
        self.m = m.detach().contiguous()
        self.v = v.detach().contiguous()
        self.moments = Moments(p=self.parameters.numpy(), m=self.m.numpy(), v=self.v.numpy())
        self.every_row: NDArray[np.int32] = np.arange(len(parameters), dtype=np.int32)

    def __len__(self) -> int:
        return int(self.parameters.shape[0])

    def holdings(self) -> Iterator[Holding]:
        """What the table keeps (`odin.memory`)."""
        yield MemoryCategory.PARAMETERS, self.parameters
        yield MemoryCategory.MOMENTS, self.m
        yield MemoryCategory.MOMENTS, self.v
        yield MemoryCategory.ROW_LISTS, self.every_row

    def digest(self) -> str:
        """sha256 over parameters, moments and counter; equal on all ranks, and for all exact arms."""
        h = hashlib.sha256()
        for tensor in (self.parameters, self.m, self.v):
            h.update(tensor.numpy().tobytes())
        h.update(f"{self.t} {len(self)}".encode())
        return h.hexdigest()
