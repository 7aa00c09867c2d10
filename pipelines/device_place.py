"""A device as a place: what `Place` asks for, in torch operations that do not make the host wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from odin.arriving import Scalar, Scopes
from odin.device.fetch import Fetched
from odin.device.streams import Streams
from odin.device.table import DeviceTable
from odin.device.upload import to_device
from odin.inflation import Inflation
from odin.layout import ColumnLayout
from odin.table import ParameterTable
from pipelines.camera import Camera
from pipelines.place import Eyes, Rows
from pipelines.reference.statistics import DeviceStatistics
from pipelines.render.culls import Culls


class DevicePlace:
    """The device of `streams`. Scopes and losses are fetched while the host goes on."""

    def __init__(self, streams: Streams) -> None:
        self.device, self._streams = streams.device, streams

    def table(self, parameters: torch.Tensor, layout: ColumnLayout, *, selective: bool, hold: int = 0) -> DeviceTable:
        """See Place."""
        return DeviceTable(parameters.to(self.device), layout, selective=selective, hold=hold)

    def statistics(self, rows: int) -> DeviceStatistics:
        """See Place."""
        return DeviceStatistics(rows, self.device)

    def rows(self, rows: NDArray[np.int32]) -> torch.Tensor:
        """See Place: int64 on the device."""
        return to_device(rows, self.device, torch.int64)

    def index(self, rows: Rows) -> torch.Tensor:
        """See Place: already one."""
        ids: torch.Tensor = rows
        return ids

    def array(self, values: torch.Tensor) -> torch.Tensor:
        """See Place."""
        return values

    def chosen(self, masks: Sequence[torch.Tensor]) -> Callable[[], list[NDArray[np.int64]]]:
        """See Place: they are on the way when this returns."""
        every, ends = Fetched(self._streams, torch.cat(list(masks))), np.cumsum([len(mask) for mask in masks])
        return lambda: [np.flatnonzero(one) for one in np.split(every.take(), ends[:-1])]

    def scalar(self, value: float | torch.Tensor) -> Scalar:
        """See Place."""
        return Fetched(self._streams, value.detach()) if isinstance(value, torch.Tensor) else value

    def photos(self, photos: Sequence[NDArray[np.float32]]) -> Sequence[torch.Tensor]:
        """See Place: copies."""
        return [torch.from_numpy(photo).to(self.device) for photo in photos]

    def eyes(self, cameras: Sequence[Camera]) -> Eyes:
        """See Place: as they are."""
        return tuple(cameras)

    def scope(
        self,
        culls: Culls,
        table: ParameterTable,
        columns: slice,
        eyes: Eyes,
        views: Sequence[int],
        inflation: Inflation,
    ) -> Scopes:
        """See Place: in torch operations, on the way to the host when this returns."""
        bits = culls.device(table.parameters[:, columns], [eyes[v] for v in views], inflation)
        return _Words(Fetched(self._streams, bits))


class _Words:
    """Bitmaps that arrive as int64, because torch's uint64 has few operations."""

    def __init__(self, fetched: Fetched) -> None:
        self._fetched = fetched

    @property
    def arrived(self) -> bool:
        return self._fetched.arrived

    def take(self) -> NDArray[np.uint64]:
        return self._fetched.take().view(np.uint64)
