"""The process transport on gloo, with or without an emulated link (D§7, `process` engine).

Raw gloo on loopback cannot show overlap: it communicates on the cores that compute. On a shaped link the real
collective runs early and cheaply, and the wait ends when the link model says that the bytes would have arrived.
"""

from __future__ import annotations

import time

import torch
import torch.distributed as dist

from odin.clock import sleep_until
from odin.comm.link import Link
from odin.comm.stamps import FinishTimes, JoinStamps
from odin.comm.transport import Arrival, Handle

_OPS = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX}


class _Collective:
    """One all-reduce under way."""

    def __init__(self, work: dist.Work, number: int, times: FinishTimes, joined: float, shaped: bool) -> None:
        self.nbytes = 0
        self._work, self._number, self._times, self._joined = work, number, times, joined
        self._shaped = shaped
        self._arrival: Arrival | None = None

    def wait(self) -> Arrival:
        """Wait for the real sum, then for the link."""
        if self._arrival is None:
            self._work.wait()
            start, finish = self._times.span(self._number)
            real = time.monotonic()
            if self._shaped:
                sleep_until(finish)
            last = self._times.last_join(self._number)
            # An unshaped link has no duration of its own: what was seen is what it took.
            self._arrival = Arrival(joined=self._joined, last_join=last, start=start, finish=max(real, finish))
        return self._arrival


class GlooTransport:
    """Ranks of an initialised gloo process group on one host. `stamps` belongs to this cell alone."""

    def __init__(self, stamps: JoinStamps, link: Link) -> None:
        self.rank = dist.get_rank()
        self.ranks = dist.get_world_size()
        self._stamps, self._link = stamps, link
        self._times = FinishTimes(stamps, link, self.ranks)

    def all_reduce(self, tensor: torch.Tensor) -> Handle:
        """Start summing in place. The join is stamped before the launch."""
        nbytes = tensor.numel() * tensor.element_size()
        number = self._times.launched(nbytes)
        joined = time.monotonic()
        self._stamps.join(number, self.rank, joined)
        work = dist.all_reduce(tensor, async_op=True)
        handle = _Collective(work, number, self._times, joined, self._link.shaped)
        handle.nbytes = nbytes
        return handle

    def reduce_now(self, tensor: torch.Tensor, op: str = "sum") -> None:
        """Sum or maximum over ranks, at once and unshaped."""
        dist.all_reduce(tensor, op=_OPS[op])

    def barrier(self) -> None:
        """Wait for every rank."""
        dist.barrier()

    def close(self) -> None:
        """Nothing is held beyond the cell's stamps."""
