"""Values of a device on their way to the host: copied behind what COMPUTE holds when they are asked for."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray

from odin.device.streams import Lane, Streams


class Fetched:
    """A copy of a tensor (`odin.arriving.Arriving`). Asking never blocks; taking does, unless the device is past it.

    tensor: on the device; what is put on COMPUTE afterwards may overwrite it
    """

    def __init__(self, streams: Streams, tensor: torch.Tensor) -> None:
        self._streams = streams
        on_device = tensor.device.type == "cuda"
        # Only into page-locked memory does a copy return before the device gets there.
        self._host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=on_device)
        self._host.copy_(tensor, non_blocking=True)
        self._event = streams.record(Lane.COMPUTE)

    @property
    def arrived(self) -> bool:
        """The device is past the copy."""
        return self._streams.reached(self._event)

    def take(self) -> NDArray[Any]:
        """The value as an array that nothing else writes to."""
        if not self.arrived:
            self._streams.synchronize(self._event)
        return self._host.numpy()
