""" "cuda" as another name of the CPU, for torch code that names its device outright."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode


class OnCpu(TorchFunctionMode):
    """Every torch function called inside takes "cuda" for "cpu"."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call `func` with its device replaced."""
        given, named = tuple(args), dict(kwargs or {})
        if func is torch.Tensor.cuda:
            return given[0]
        if "device" in named:
            named["device"] = _host(named["device"])
        if func is torch.Tensor.to:
            given = tuple(_host(argument) for argument in given)
        return func(*given, **named)


def _host(device: Any) -> Any:
    if isinstance(device, str) and device.partition(":")[0] == "cuda":
        return "cpu"
    if isinstance(device, torch.device) and device.type == "cuda":
        return torch.device("cpu")
    return device


class _Event:
    """An event of a device that is always idle."""

    def __init__(self, **_: object) -> None: ...

    def record(self, *_: object) -> None:
        """Nothing is timed."""

    def elapsed_time(self, other: object) -> float:
        """Milliseconds."""
        return 0.0


@contextmanager
def no_gpu() -> Iterator[None]:
    """Inside, the calls that the forks' own training loops make to a GPU do nothing."""
    replaced: dict[str, Any] = {"Event": _Event}
    replaced |= dict.fromkeys(("synchronize", "set_device", "empty_cache"), lambda *_, **__: None)
    with mock.patch.multiple(torch.cuda, **replaced):
        yield
