"""The process transport on gloo, with or without an emulated link (D§7, `process` engine).

Raw gloo on loopback cannot show overlap: it communicates on the cores that compute. On a shaped link the real
collective runs early and cheaply, and the wait ends when the link model says that the bytes would have arrived.
"""

from __future__ import annotations

import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from odin.clock import sleep_until
from odin.comm.link import Link
from odin.comm.ordered import OrderedReducer
from odin.comm.stamps import CutBoard, FinishTimes, JoinStamps
from odin.comm.transport import Arrival, Handle, Reduction, WaitsRaise, require_fit
from odin.errors import RunError

_POLL_SECONDS = 1e-4
_OPS = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX}


class _Collective:
    """One collective under way. `block` returns when the real one is there, or raises what went wrong with it."""

    def __init__(
        self,
        block: Callable[[], object],
        number: int,
        times: FinishTimes,
        joined: float,
        *,
        shaped: bool,
        patience: float,
    ) -> None:
        self.nbytes = 0
        self._block, self._number, self._times, self._joined = block, number, times, joined
        self._shaped, self._patience = shaped, patience
        self._arrival: Arrival | None = None

    def wait(self) -> Arrival:
        """Wait for the real sum, then for the link."""
        if self._arrival is None:
            self._block()
            self._all_joined()
            real = time.monotonic()
            start, finish = self._times.span(self._number)
            if self._shaped:
                sleep_until(finish)
            else:  # no duration of its own: what was seen is what it took
                finish = max(real, start)
            last = self._times.last_join(self._number)
            self._arrival = Arrival(joined=self._joined, last_join=last, start=start, finish=finish, real=real)
        return self._arrival

    def _all_joined(self) -> None:
        """Ranks that have nothing for each other do not meet in the real exchange, but the link counts them all."""
        deadline = time.monotonic() + self._patience
        while math.isnan(self._times.last_join(self._number)):
            if time.monotonic() > deadline:
                raise RunError(
                    f"Timed out: rank(s) {self._times.absent(self._number)} did not join an exchange within "
                    f"{self._patience:g} s; the run was stopped."
                )
            time.sleep(_POLL_SECONDS)


def in_order_group(store: dist.Store, rank: int, ranks: int, timeout: timedelta) -> dist.ProcessGroupGloo:
    """A gloo group with one worker thread, on the interface of $GLOO_SOCKET_IFNAME (default: loopback).

    The default of two threads works on two collectives at once, so a small urgent segment would really arrive
    only with the large rest behind it; a link delivers in order.
    """
    options = dist.ProcessGroupGloo._Options()  # type: ignore[attr-defined]
    options._threads = 1
    options._timeout = timeout
    interface = os.environ.get("GLOO_SOCKET_IFNAME", "lo")
    options._devices = [dist.ProcessGroupGloo.create_device(interface=interface)]
    return dist.ProcessGroupGloo(dist.PrefixStore("in-order", store), rank, ranks, options)


class Cuts(Protocol):
    """Where ranks enter how they have cut a step."""

    def agree(self, step: int, rank: int, digest: int) -> None:
        """Enter this rank's cut. Raises RunError where another one is known to differ."""
        ...

    def compare_all(self) -> None:
        """Raise RunError if any step was cut differently: asked when a collective has failed."""
        ...


class GlooRanks(WaitsRaise, ABC):
    """Ranks of an initialised gloo process group, wherever they are; what a collective's arrival is, a subclass says.

    group:     carries the asynchronous sums, see `in_order_group`; nothing else may use it until `close`
    cuts:      belong to this cell alone
    reduction: how the asynchronous sums are formed
    """

    def __init__(
        self, group: dist.ProcessGroupGloo, cuts: Cuts, link: Link, reduction: Reduction = Reduction.NATIVE
    ) -> None:
        self.rank = dist.get_rank()
        self.ranks = dist.get_world_size()
        self._group, self._cuts, self._link = group, cuts, link
        self._ordered = OrderedReducer(group) if reduction is Reduction.ORDERED else None

    def all_reduce(self, tensor: torch.Tensor, joined: float) -> Handle:
        """Start summing in place. The join is stamped before the launch."""
        nbytes = tensor.numel() * tensor.element_size()
        return self._launch(lambda: self._named(self._start(tensor)), self._seconds(nbytes), joined, nbytes)

    def all_to_all(self, send: torch.Tensor, receive: torch.Tensor, sizes: NDArray[np.int64], joined: float) -> Handle:
        """See ExchangeTransport."""
        nbytes = require_fit(send, receive, sizes, self.rank)
        counts = sizes[:, self.rank].tolist(), sizes[self.rank].tolist()

        def start() -> Callable[[], object]:
            return self._group.alltoall_base(receive, send, *counts).wait  # type: ignore[attr-defined]

        sent = int(nbytes[self.rank].sum() - nbytes[self.rank, self.rank])
        return self._launch(start, self._link.exchange_seconds(nbytes), joined, sent)

    def all_gather(self, part: torch.Tensor, gathered: torch.Tensor, joined: float) -> Handle:
        """See ExchangeTransport."""
        nbytes = part.numel() * part.element_size()

        def start() -> Callable[[], object]:
            flat = gathered.view(-1), part.view(-1)  # gloo takes the same shapes only when they are flat
            return self._group._allgather_base(*flat).wait  # type: ignore[attr-defined]

        return self._launch(start, self._link.all_gather_seconds(self.ranks * nbytes, self.ranks), joined, nbytes)

    @abstractmethod
    def _launch(self, start: Callable[[], Callable[[], object]], seconds: float, joined: float, nbytes: int) -> Handle:
        """Start a collective that occupies the link for `seconds`. start: launches the real one and returns what blocks
        until that is there."""

    def agree(self, step: int, digest: int) -> None:
        """Compare the step's cut with those of the ranks that were here before. Raises RunError."""
        self._cuts.agree(step, self.rank, digest)

    def _start(self, tensor: torch.Tensor) -> Callable[[], object]:
        """Launch the real sum and return what blocks until it is there."""
        if self._ordered is not None:
            return self._ordered.launch(tensor).result
        return self._group.allreduce([tensor]).wait  # type: ignore[attr-defined]

    def _named(self, block: Callable[[], object]) -> Callable[[], object]:
        """The same, but a sum that fails because ranks have cut a step differently says which ones did."""

        def wait() -> None:
            try:
                block()
            except RuntimeError:
                self._cuts.compare_all()
                raise

        return wait

    def _seconds(self, nbytes: int) -> float:
        link, ranks = self._link, self.ranks
        if self._ordered is not None:
            return link.all_to_all_seconds(nbytes, ranks) + link.all_gather_seconds(nbytes, ranks)
        return link.all_reduce_seconds(nbytes, ranks)

    def reduce_now(self, tensor: torch.Tensor, op: str = "sum") -> None:
        """Sum or maximum over ranks, at once and unshaped."""
        dist.all_reduce(tensor, op=_OPS[op])

    def barrier(self) -> None:
        """Wait for every rank."""
        dist.barrier()

    def close(self) -> None:
        """End the thread of the ordered sums; nothing else is held beyond the cell's stamps."""
        if self._ordered is not None:
            self._ordered.close()


class GlooTransport(GlooRanks):
    """Ranks of one host, which share memory for join stamps.

    stamps:   belong to this cell alone
    patience: seconds after which a rank that does not join is taken for dead; the rest as in `GlooRanks`
    """

    def __init__(
        self,
        group: dist.ProcessGroupGloo,
        stamps: JoinStamps,
        cuts: CutBoard,
        link: Link,
        reduction: Reduction = Reduction.NATIVE,
        patience: float = 600.0,
    ) -> None:
        super().__init__(group, cuts, link, reduction)
        self._stamps, self._times, self._patience = stamps, FinishTimes(stamps), patience

    def _launch(self, start: Callable[[], Callable[[], object]], seconds: float, joined: float, nbytes: int) -> Handle:
        number = self._times.launched(seconds)
        self._stamps.join(number, self.rank, joined)
        shaped, patience = self._link.shaped, self._patience
        handle = _Collective(start(), number, self._times, joined, shaped=shaped, patience=patience)
        handle.nbytes = nbytes
        return handle
