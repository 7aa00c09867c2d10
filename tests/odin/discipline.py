"""The discipline of the two lanes, checked on a log: what runs where, and what waits for what.

Every checker returns what is wrong, [] where nothing is.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from odin.device.standin import LoggedStreams, Operation
from odin.device.streams import Lane

INDEXED = {"aten::index_select": (0, 1, 2), "aten::index_copy_": (0, 1, 2), "aten::index_add_": (0, 1, 2)}
OVERWRITES = {"aten::zero_", "aten::fill_", "aten::copy_", "aten::index_copy_"}
COLLECTIVES = {"all_reduce", "all_to_all", "all_gather"}
ON_COMMUNICATION = {"record", "wait_event", *COLLECTIVES}


def _positions(tensor: torch.Tensor) -> np.ndarray:
    """Address of every element, of the tensor's shape. Without torch operations, which are watched."""
    places = np.zeros(tuple(tensor.shape), np.int64)
    for axis, (n, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        places += np.expand_dims(np.arange(n) * stride, tuple(range(1, tensor.dim() - axis)))
    return tensor.data_ptr() + places * tensor.element_size()


def addresses(tensor: torch.Tensor) -> frozenset[int]:
    """Addresses of a tensor's elements."""
    return frozenset(_positions(tensor).ravel().tolist())


class Recorder(TorchDispatchMode):
    """Notes what every torch operation reads and writes, element by element, on the lane it went to."""

    def __init__(self, streams: LoggedStreams) -> None:
        super().__init__()
        self._streams = streams

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        schema = func._schema
        is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
        if not is_view:
            reads, writes = self._accesses(schema, args)
            self._streams.note(schema.name, reads=reads, writes=writes)
        return func(*args, **(kwargs or {}))

    def _accesses(self, schema, args) -> tuple[frozenset[int], frozenset[int]]:
        reads, writes = set(), set()
        for position, (argument, value) in enumerate(zip(schema.arguments, args, strict=False)):
            for tensor in value if isinstance(value, list | tuple) else [value]:
                if not isinstance(tensor, torch.Tensor):
                    continue
                touched = self._touched(schema.name, position, tensor, args)
                written = argument.alias_info is not None and argument.alias_info.is_write
                if written:
                    writes |= touched
                if not (written and schema.name in OVERWRITES):
                    reads |= touched
        return frozenset(reads), frozenset(writes)

    def _touched(self, name, position, tensor, args) -> frozenset[int]:
        if position == 0 and name in INDEXED and tensor.numel():
            _, dim, index = (args[i] for i in INDEXED[name])
            return frozenset(_positions(tensor).take(index.numpy(), axis=dim).ravel().tolist())
        return addresses(tensor)


def strangers_on_communication(log: Iterable[Operation]) -> list[Operation]:
    """Operations on COMMUNICATION other than collectives, events and waits for events."""
    return [op for op in log if op.lane is Lane.COMMUNICATION and op.name not in ON_COMMUNICATION]


def _collectives(log: list[Operation]) -> list[int]:
    return [k for k, op in enumerate(log) if op.name in COLLECTIVES and op.lane is Lane.COMMUNICATION]


def _waited(log: list[Operation], lane: Lane, recorded: Lane, after: int, before: int) -> bool:
    """Whether `lane`, ahead of operation `before`, waits for an event recorded on `recorded` behind `after`."""
    events = {op.event for op in log[after + 1 :] if op.name == "record" and op.lane is recorded}
    return any(op.name == "wait_event" and op.lane is lane and op.event in events for op in log[:before])


def launched_before_written(log: list[Operation]) -> list[int]:
    """Collectives that do not wait for the last write of their slice ahead of them."""
    wrong = []
    for k in _collectives(log):
        last = max((j for j in range(k) if log[j].lane is Lane.COMPUTE and log[j].writes & log[k].reads), default=-1)
        if not _waited(log, Lane.COMMUNICATION, Lane.COMPUTE, last, k):
            wrong.append(k)
    return wrong


def touched_before_arrival(log: list[Operation]) -> list[int]:
    """Operations on COMPUTE that touch a slice under way without a wait for its arrival ahead of them.

    The wait must be for an event recorded behind the collective, but also ahead of the operation.
    """
    wrong = []
    for k in _collectives(log):
        for j in range(k + 1, len(log)):
            op = log[j]
            if op.lane is Lane.COMPUTE and (op.reads | op.writes) & log[k].writes:
                if not _waited(log, Lane.COMPUTE, Lane.COMMUNICATION, k, j):
                    wrong.append(j)
                break  # what follows on COMPUTE is behind this one
    return wrong


def host_waits(log: Iterable[Operation]) -> list[Operation]:
    """Points at which the host blocked."""
    return [op for op in log if op.name == "synchronize"]


def violations(log: list[Operation]) -> dict[str, list]:
    """Everything above, by name."""
    checks = (strangers_on_communication, launched_before_written, touched_before_arrival, host_waits)
    return {check.__name__: found for check in checks if (found := check(log))}


class Namer(TorchDispatchMode):
    """Notes only which torch operations went to which lane: for long runs."""

    def __init__(self, streams: LoggedStreams) -> None:
        super().__init__()
        self._streams = streams

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if not any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns):
            self._streams.note(func._schema.name)
        return func(*args, **(kwargs or {}))
