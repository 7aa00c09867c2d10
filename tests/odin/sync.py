"""Refusing, on a CPU, what would make the host wait for a device."""

from __future__ import annotations

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

# Sizes or values of the result depend on data, so CUDA must hand them to the host first.
DATA_DEPENDENT = {
    "aten::_local_scalar_dense",
    "aten::nonzero",
    "aten::masked_select",
    "aten::_unique2",
    "aten::unique_consecutive",
    "aten::unique_dim",
    "aten::equal",
    "aten::is_nonzero",
}
WITH_MASKS = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}
# These leave no trace below Python where a tensor is on the CPU already.
TO_HOST = {"cpu", "numpy", "tolist", "item", "__array__", "__bool__", "__int__", "__float__", "__index__"}


class HostSyncError(AssertionError):
    """The host would have waited."""


class NoHostSync(TorchDispatchMode):
    """Operations whose result the host needs raise, also inside torch."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name
        masks = name in WITH_MASKS and any(t is not None and t.dtype in (torch.bool, torch.uint8) for t in args[1])
        if name in DATA_DEPENDENT or masks:
            raise HostSyncError(name)
        return func(*args, **(kwargs or {}))


class NoHostCopy(TorchFunctionMode):
    """Calls that bring a tensor to the host raise."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        to_cpu = name == "to" and any(str(a) == "cpu" for a in [*args[1:], *(kwargs or {}).values()])
        if to_cpu or name in TO_HOST:
            raise HostSyncError(name)
        return func(*args, **(kwargs or {}))
