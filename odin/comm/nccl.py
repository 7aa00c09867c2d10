"""The process transport on NCCL: collectives on their own lane, events instead of host waits (D§7, RUNTIME.md 6).

A launch records an event on COMPUTE, after the last write of its slice, and the collective waits for it on
COMMUNICATION. `Handle.wait` holds COMPUTE back until the sum is there. None of it makes the host wait; when each
rank joined and when each sum arrived is read off events by `settle`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Protocol

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from odin.comm.deferred import DeferredArrival
from odin.comm.hosts import HostClock
from odin.comm.transport import Arrival, require_fit
from odin.comm.watchdog import Watchdog
from odin.device.clock import EventClock, Stamp
from odin.device.streams import Event, Lane
from odin.errors import InputError

_OPS = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX}
_PAUSE = 1e-4  # between looks at an event, outside steps


class Work(Protocol):
    """A collective under way."""

    def wait(self) -> object:
        """Hold the current stream, not the host, until it is complete."""
        ...


class Communicator(Protocol):
    """A group of ranks for one purpose. Collectives complete in launch order."""

    def all_reduce(self, tensor: torch.Tensor, op: str) -> Work:
        """Start a `sum` or `max` over ranks, in place, behind what is on the current stream."""
        ...

    def all_to_all(self, send: torch.Tensor, receive: torch.Tensor, out: list[int], back: list[int]) -> Work:
        """Start moving out[r] first-axis elements of `send` to each rank r, and back[r] from it into `receive`."""
        ...

    def all_gather(self, part: torch.Tensor, gathered: torch.Tensor) -> Work:
        """Start collecting every rank's `part` in rank order."""
        ...

    def abort(self) -> None:
        """Give up everything under way."""
        ...


class NcclCommunicator:
    """One NCCL communicator. Its own timeout ends the process without a word about the rank, so it is set to twice
    the watchdog's patience and only acts where that has failed."""

    def __init__(self, purpose: str, store: dist.Store, rank: int, ranks: int, patience: timedelta) -> None:
        if os.environ.get("TORCH_NCCL_BLOCKING_WAIT", "0") != "0":
            raise InputError(
                "TORCH_NCCL_BLOCKING_WAIT makes every wait for a collective stop the host, so that nothing overlaps. "
                "Unset it and start again."
            )
        options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
        options._timeout = 2 * patience
        self._group = dist.ProcessGroupNCCL(dist.PrefixStore(f"odin-{purpose}", store), rank, ranks, options)

    def all_reduce(self, tensor: torch.Tensor, op: str) -> Work:
        """Start a sum or maximum behind the current stream. NCCL has a stream of its own; `wait` comes back from it."""
        options = dist.AllreduceOptions()
        options.reduceOp, options.asyncOp = _OPS[op], True
        return self._group.allreduce([tensor], options)  # type: ignore[attr-defined]

    def all_to_all(self, send: torch.Tensor, receive: torch.Tensor, out: list[int], back: list[int]) -> Work:
        """Start an exchange of rows behind the current stream."""
        return self._group.alltoall_base(receive, send, back, out)  # type: ignore[attr-defined]

    def all_gather(self, part: torch.Tensor, gathered: torch.Tensor) -> Work:
        """Start a collection behind the current stream."""
        return self._group._allgather_base(gathered.view(-1), part.view(-1))  # type: ignore[attr-defined]

    def abort(self) -> None:
        """Give up everything under way."""
        self._group.abort()


@dataclass(frozen=True, kw_only=True)
class Communicators:
    """One communicator per purpose.

    gradients: the asynchronous sums, and exchanges of rows
    control:   statistics and checks; never at the same time, because two communicators of a device may block each
               other where ranks get to them in different order
    """

    gradients: Communicator
    control: Communicator

    def abort(self) -> None:
        """Give up everything under way."""
        self.gradients.abort()
        self.control.abort()


@dataclass(frozen=True, kw_only=True)
class _Launch:
    """A collective that is not settled yet. `ready`: this rank joined; `finish`: its sum is there."""

    ready: Stamp
    finish: Stamp


class _Handle:
    """A collective under way; `wait` is for the device. Holds its tensors until then: their memory must not be handed
    to a kernel on COMPUTE, where it was allocated, while COMMUNICATION still works on it."""

    def __init__(
        self, nbytes: int, tensors: tuple[torch.Tensor, ...], wait: Callable[[], None], read: Callable[[], Arrival]
    ) -> None:
        self.nbytes, self._tensors = nbytes, tensors
        self._wait, self._read = wait, read

    def wait(self) -> Arrival:
        """Hold COMPUTE back until the sum is there. Returns at once; the arrival can be read after `settle`."""
        self._wait()
        self._tensors = ()
        return DeferredArrival(self._read)


class NcclTransport:
    """Ranks with a device each, for one cell.

    clock:    of this rank's device; the keeper's too
    watchdog: started here and stopped by `close`
    hosts:    one clock for ranks of several hosts; None where they share one
    """

    def __init__(
        self,
        rank: int,
        ranks: int,
        communicators: Communicators,
        clock: EventClock,
        watchdog: Watchdog,
        hosts: HostClock | None = None,
    ) -> None:
        self.rank, self.ranks, self._hosts = rank, ranks, hosts
        if hosts is not None:
            hosts.anchor()
        self._communicators, self._clock, self._watchdog = communicators, clock, watchdog
        self._streams = clock.streams
        watchdog.start()
        self._open: list[_Launch] = []
        self._last: Event | None = None  # finish of the last launch
        self._arrivals: list[Arrival] = []

    def all_reduce(self, tensor: torch.Tensor, joined: float) -> _Handle:
        """Start summing in place behind what COMPUTE holds now.

        joined: when the host got here; not used, as this rank joins when its device gets here
        """
        nbytes = tensor.numel() * tensor.element_size()
        return self._launch(
            f"gradients, {nbytes} bytes", nbytes, (tensor,), lambda group: group.all_reduce(tensor, "sum")
        )

    def all_to_all(self, send: torch.Tensor, receive: torch.Tensor, sizes: NDArray[np.int64], joined: float) -> _Handle:
        """See ExchangeTransport; the tensors are on the device."""
        nbytes = require_fit(send, receive, sizes, self.rank)
        out, back = sizes[self.rank].tolist(), sizes[:, self.rank].tolist()
        sent = int(nbytes[self.rank].sum() - nbytes[self.rank, self.rank])
        # Named by what all ranks send: a name that is another on every rank would tell of a rank gone astray.
        name = f"rows, {int(nbytes.sum())} bytes in all"
        return self._launch(name, sent, (send, receive), lambda group: group.all_to_all(send, receive, out, back))

    def all_gather(self, part: torch.Tensor, gathered: torch.Tensor, joined: float) -> _Handle:
        """See ExchangeTransport; the tensors are on the device."""
        nbytes = part.numel() * part.element_size()
        name = f"facts, {nbytes} bytes"
        return self._launch(name, nbytes, (part, gathered), lambda group: group.all_gather(part, gathered))

    def check(self) -> None:
        """See ExchangeTransport."""
        self._watchdog.check()

    def _launch(
        self, name: str, nbytes: int, tensors: tuple[torch.Tensor, ...], start: Callable[[Communicator], Work]
    ) -> _Handle:
        """Start a collective on COMMUNICATION behind what COMPUTE holds now. name: the same on every rank; nbytes: sent
        by this one"""
        self._watchdog.check()
        streams, number = self._streams, len(self._arrivals) + len(self._open)
        ready = self._clock.stamp(Lane.COMPUTE)
        streams.wait_event(Lane.COMMUNICATION, ready.event)
        with streams.on(Lane.COMMUNICATION):
            start(self._communicators.gradients).wait()
        finish = self._clock.stamp(Lane.COMMUNICATION)
        self._last = finish.event
        self._open.append(_Launch(ready=ready, finish=finish))
        wait, read = partial(streams.wait_event, Lane.COMPUTE, finish.event), partial(self._arrival, number)
        self._watchdog.watch(name, partial(streams.reached, finish.event))
        return _Handle(nbytes, tensors, wait, read)

    def _arrival(self, number: int) -> Arrival:
        if number >= len(self._arrivals):
            raise AssertionError(f"the arrival of collective {number} was read before the transport was settled")
        return self._arrivals[number]

    def settle(self) -> None:
        """Make all arrivals so far readable. Every rank calls it together, after a cell or between steps where all is
        published; blocks the host."""
        launches, self._open = self._open, []
        if not launches:
            return
        self.barrier()
        self._clock.anchor()
        joined = torch.tensor([self._clock.moment(x.ready) for x in launches], dtype=torch.float64)
        last = self._last_of_all(joined)
        free = self._arrivals[-1].finish if self._arrivals else 0.0
        for launch, own, latest in zip(launches, joined.tolist(), last.tolist(), strict=True):
            finish = self._clock.moment(launch.finish)
            # Clocks of devices agree only so far: a peer cannot have joined after its sum was here.
            latest = min(latest, finish)
            start = min(max(latest, free), finish)
            self._arrivals.append(Arrival(joined=own, last_join=latest, start=start, finish=finish, real=finish))
            free = finish

    def _last_of_all(self, joined: torch.Tensor) -> torch.Tensor:
        """The latest join of each collective over ranks, on this rank's clock. joined: its own, float64 [C]."""
        last, hosts = joined.clone(), self._hosts
        if hosts is None:
            self.reduce_now(last, "max")
            return last
        hosts.anchor()
        last.apply_(hosts.common)
        self.reduce_now(last, "max")
        return last.apply_(hosts.own)

    def agree(self, step: int, digest: int) -> None:
        """Compare the step's cut with those of the neighbouring ranks that were here before, through the rendezvous
        store. Raises RunError naming them. The device does not wait."""
        self._watchdog.agree(step, digest)

    def reduce_now(self, tensor: torch.Tensor, op: str = "sum") -> None:
        """Sum or maximum over ranks, in place, at once; `tensor` may be on the host. Blocks: never inside a step."""
        self._watchdog.check()
        streams = self._streams
        if self._last is not None:
            streams.wait_event(Lane.COMPUTE, self._last)
        staged = tensor.to(streams.device)
        self._communicators.control.all_reduce(staged, op).wait()
        done = streams.record(Lane.COMPUTE)
        self._watchdog.watch(f"control, {staged.numel()} of {staged.dtype}", partial(streams.reached, done))
        while not streams.reached(done):
            self._watchdog.check()
            time.sleep(_PAUSE)
        self._watchdog.check()  # aborted work looks complete
        if staged is not tensor:
            tensor.copy_(staged)

    def barrier(self) -> None:
        """Wait for every rank and for everything under way."""
        self.reduce_now(torch.zeros(1, dtype=torch.int64))

    def close(self) -> None:
        """Stop the watchdog and forget the events."""
        self._watchdog.close()
        self._open.clear()


def connect(store: dist.Store, rank: int, ranks: int, device: torch.device, patience: timedelta) -> Communicators:
    """NCCL communicators of this rank, connected. All ranks call this together, once per process.

    store: what the ranks meet at
    """
    communicators = Communicators(
        gradients=NcclCommunicator("gradients", store, rank, ranks, patience),
        control=NcclCommunicator("control", store, rank, ranks, patience),
    )
    with torch.cuda.device(device):
        for communicator in (communicators.gradients, communicators.control):  # NCCL connects on first use
            communicator.all_reduce(torch.zeros(1, device=device), "sum").wait()
            torch.cuda.synchronize()
    return communicators
