"""Host values on their way to a device."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray

HOST_DEVICE = torch.device("cpu")


def as_index(rows: NDArray[Any], device: torch.device) -> torch.Tensor:
    """Rows that the host names, as the index of a tensor there; the host does not wait."""
    return torch.from_numpy(rows) if device.type == "cpu" else to_device(rows, device, torch.int64)


def to_device(array: NDArray[Any], device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """A copy of `array` on `device`, without the host waiting for it.

    Only a copy from page-locked memory returns before the device gets there; from ordinary memory it would stop the
    host in mid-step.
    """
    host = torch.tensor(array, dtype=dtype)
    if device.type != "cuda":
        return host
    return host.pin_memory().to(device, non_blocking=True)
