"""Where a pipeline's table, photos and statistics are: in the host's memory, or on a device that it runs ahead of.

A recipe says what it does; its place says with which kind of array. Nothing in a step asks where it is.

Legend: N rows of the table, M rows of one view, V views, H, W image size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from pipelines.render.cull import pack_cameras
from pipelines.render.culls import Culls

Rows = Any
"""Arrays of a place: numpy arrays on the host, tensors on a device."""
Eyes = Any
"""Cameras of a place: one packed array on the host, a list for a device."""


class Place(Protocol):
    """One kind of place."""

    device: torch.device

    def table(
        self, parameters: torch.Tensor, layout: ColumnLayout, *, selective: bool, hold: int = 0
    ) -> ParameterTable:
        """A table that starts from `parameters`, float32 [N, D] on the host; see `ParameterTable`."""
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

    def chosen(self, masks: Sequence[torch.Tensor]) -> Callable[[], list[NDArray[np.int64]]]:
        """Positions that are set in each of some masks (bool [M]), on the host, when they are asked for; that blocks,
        once for all of them."""
        ...

    def scalar(self, value: float | torch.Tensor) -> Scalar:
        """A number that the host wants to know sooner or later."""
        ...

    def photos(self, photos: Sequence[NDArray[np.float32]]) -> Sequence[Any]:
        """Photos, float32 [H, W, 3], where the renderer compares with them."""
        ...

    def eyes(self, cameras: Sequence[Camera]) -> Eyes:
        """Cameras in the form that `scope` takes, made once."""
        ...

    def scope(
        self,
        culls: Culls,
        table: ParameterTable,
        columns: slice,
        eyes: Eyes,
        views: Sequence[int],
        inflation: Inflation,
    ) -> Scopes:
        """Conservative scopes of some of the eyes from the table's geometry columns."""
        ...


class HostPlace:
    """The host's memory."""

    device = torch.device("cpu")

    def table(
        self, parameters: torch.Tensor, layout: ColumnLayout, *, selective: bool, hold: int = 0
    ) -> ParameterTable:
        """See Place."""
        return ParameterTable(parameters, layout, selective=selective, hold=hold)

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

    def chosen(self, masks: Sequence[torch.Tensor]) -> Callable[[], list[NDArray[np.int64]]]:
        """See Place: at once."""
        found = [np.flatnonzero(mask.numpy()) for mask in masks]
        return lambda: found

    def scalar(self, value: float | torch.Tensor) -> Scalar:
        """See Place."""
        return float(value)

    def photos(self, photos: Sequence[NDArray[np.float32]]) -> Sequence[NDArray[np.float32]]:
        """See Place: as they are."""
        return photos

    def eyes(self, cameras: Sequence[Camera]) -> Eyes:
        """See Place: one array."""
        return pack_cameras(cameras)

    def scope(
        self,
        culls: Culls,
        table: ParameterTable,
        columns: slice,
        eyes: Eyes,
        views: Sequence[int],
        inflation: Inflation,
    ) -> Scopes:
        """See Place: in fused kernels, at once, on the parameters' storage without a torch call."""
        return culls.host(table.moments.p[:, columns], eyes[np.asarray(views)], inflation)


HOST = HostPlace()
