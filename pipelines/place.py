"""Where a pipeline's table, photos and statistics are: in the host's memory, or on a device that it runs ahead of.

A recipe says what it does; its place says with which kind of array. Nothing in a step asks where it is.

Legend: N rows of the table, M rows of one view, V views, H, W image size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from odin.arriving import Scalar, Scopes
from odin.inflation import Inflation
from odin.layout import ColumnLayout
from odin.table import ParameterTable
from pipelines.camera import Camera
from pipelines.reference.statistics import DensificationStatistics
from pipelines.render.cull import cull_packed

Rows = Any
"""Arrays of a place: numpy arrays on the host, tensors on a device."""


class Place(Protocol):
    """One kind of place."""

    device: torch.device

    def table(self, parameters: torch.Tensor, layout: ColumnLayout, *, selective: bool) -> ParameterTable:
        """A table that starts from `parameters`, float32 [N, D] on the host."""
        ...

    def statistics(self, rows: int) -> DensificationStatistics:
        """Densification statistics of so many rows."""
        ...

    def rows(self, rows: NDArray[np.int32]) -> Rows:
        """Rows that the host names, int32 [M], as frames keep and slots take them."""
        ...

    def index(self, rows: Rows) -> torch.Tensor:
        """Such rows as the index of a tensor."""
        ...

    def array(self, values: torch.Tensor) -> Rows:
        """Values as slots take them."""
        ...

    def scalar(self, value: float | torch.Tensor) -> Scalar:
        """A number that the host wants to know sooner or later."""
        ...

    def photo(self, image: NDArray[np.uint8]) -> Any:
        """A photo [H, W, 3] as float32, 0…1."""
        ...

    def scope(self, geometry: torch.Tensor, cameras: Sequence[Camera], inflation: Inflation) -> Scopes:
        """Conservative scopes of views (`cull_packed`) from the table's geometry columns."""
        ...


class HostPlace:
    """The host's memory."""

    device = torch.device("cpu")

    def table(self, parameters: torch.Tensor, layout: ColumnLayout, *, selective: bool) -> ParameterTable:
        """See Place."""
        return ParameterTable(parameters, layout, selective=selective)

    def statistics(self, rows: int) -> DensificationStatistics:
        """See Place."""
        return DensificationStatistics(rows)

    def rows(self, rows: NDArray[np.int32]) -> Rows:
        """See Place."""
        return rows

    def index(self, rows: Rows) -> torch.Tensor:
        """See Place."""
        return torch.from_numpy(rows)

    def array(self, values: torch.Tensor) -> Rows:
        """See Place."""
        return values.numpy()

    def scalar(self, value: float | torch.Tensor) -> Scalar:
        """See Place."""
        return float(value)

    def photo(self, image: NDArray[np.uint8]) -> NDArray[np.float32]:
        """See Place."""
        return as_float(image)

    def scope(self, geometry: torch.Tensor, cameras: Sequence[Camera], inflation: Inflation) -> Scopes:
        """See Place: in fused kernels, at once."""
        return cull_packed(geometry, cameras, inflation)


HOST = HostPlace()


def as_float(image: NDArray[np.uint8]) -> NDArray[np.float32]:
    """A photo's bytes as float32, 0…1."""
    return np.ascontiguousarray(image, dtype=np.float32) / np.float32(255.0)
