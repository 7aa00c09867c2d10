"""What the runtime needs of communication: asynchronous sums that complete in order, with stamps.

Legend: W ranks. All stamps are seconds of the rank's own monotonic clock, which ranks of a host share.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray


class Reduction(Enum):
    """How gradients are summed over ranks (D§5 Exact arms).

    NATIVE:  the backend's all-reduce; from three ranks on, the order in which it adds an element's terms depends on
             where in its payload the element lies, and so on how a gradient is cut into segments
    ORDERED: every element in rank order, see `odin.comm.ordered`
    """

    NATIVE = "native"
    ORDERED = "ordered"


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """When a collective was complete.

    joined:    this rank joined
    last_join: the last rank joined
    start:     the transfer began: the last rank had joined and the link was free
    finish:    the link has delivered the sum; on an unshaped link, when it was seen to be complete
    real:      this rank held the real sum (on a shaped link normally before `finish`)
    """

    joined: float
    last_join: float
    start: float
    finish: float
    real: float


class Handle(Protocol):
    """A collective under way."""

    nbytes: int

    def wait(self) -> Arrival:
        """Block until the sum is usable. May be called more than once."""
        ...


class Transport(Protocol):
    """A group of ranks. Collectives complete in launch order, which must be the same on every rank."""

    rank: int
    ranks: int

    def all_reduce(self, tensor: torch.Tensor, joined: float) -> Handle:
        """Start summing `tensor` over ranks in place. `joined`: the moment this rank counts as having joined."""
        ...

    def agree(self, step: int, digest: int) -> None:
        """Say how this rank has cut a step, before any segment of it leaves. Ranks that cut it differently would
        add unrelated rows: raises RunError naming them, here or when a segment of the step is waited for."""
        ...

    def reduce_now(self, tensor: torch.Tensor, op: str = "sum") -> None:
        """Sum (`sum`) or maximum (`max`) over ranks, in place, at once. For statistics and checks, not timed."""
        ...

    def barrier(self) -> None:
        """Wait for every rank."""
        ...

    def close(self) -> None:
        """Release what this transport holds; the process group itself stays."""
        ...


class ExchangeTransport(Transport, Protocol):
    """A transport that also moves rows between ranks, as mixed parallelism does (D§6, D§7). All three kinds share one
    queue. No sum may be under way with an ordered reduction while rows move: it has a thread of its own."""

    def all_to_all(self, send: torch.Tensor, receive: torch.Tensor, sizes: NDArray[np.int64], joined: float) -> Handle:
        """Start moving parts of `send` to their ranks; `receive` holds, in rank order, what they sent here.

        send, receive: contiguous, of one type, of any shape whose first axis `sizes` counts; both are left alone until
            the handle has been waited for
        sizes: int64 [W, W], first-axis elements from rank i to rank j, the same on every rank

        Raises ValueError where sizes and tensors do not fit each other.
        """
        ...

    def all_gather(self, part: torch.Tensor, gathered: torch.Tensor, joined: float) -> Handle:
        """Start collecting every rank's `part` (same shape and type on all, contiguous) in rank order.
        gathered: [W, *part.shape]."""
        ...

    def check(self) -> None:
        """Raise RunError where a rank is known to have failed. Asked before the host believes what a device has handed
        it: a collective that was given up looks complete, and leaves whatever was in its buffer."""
        ...


def require_fit(send: torch.Tensor, receive: torch.Tensor, sizes: NDArray[np.int64], rank: int) -> NDArray[np.int64]:
    """Bytes from rank i to rank j of an all-to-all, int64 [W, W]. Raises ValueError where it does not fit."""
    inner = send.shape[1:]
    if receive.dtype != send.dtype or receive.shape[1:] != inner:
        raise ValueError(f"rows {send.dtype} {list(inner)} are received as {receive.dtype} {list(receive.shape[1:])}")
    out, back = int(sizes[rank].sum()), int(sizes[:, rank].sum())
    if (len(send), len(receive)) != (out, back):
        raise ValueError(f"rank {rank} sends {len(send)} and receives {len(receive)} rows; sizes say {out} and {back}")
    return sizes * (inner.numel() * send.element_size())


class _Done:
    def __init__(self, nbytes: int, now: float) -> None:
        self.nbytes = nbytes
        self._arrival = Arrival(joined=now, last_join=now, start=now, finish=now, real=now)

    def wait(self) -> Arrival:
        return self._arrival


class WaitsRaise:
    """A transport on the host, where waiting for a collective that has failed raises at once."""

    def check(self) -> None:
        """See ExchangeTransport: nothing is left to find out."""


class SingleRank(WaitsRaise):
    """The transport of one rank: every sum is already complete."""

    rank = 0
    ranks = 1

    def all_reduce(self, tensor: torch.Tensor, joined: float) -> Handle:
        """The sum of one rank is the tensor itself."""
        return _Done(tensor.numel() * tensor.element_size(), joined)

    def all_to_all(self, send: torch.Tensor, receive: torch.Tensor, sizes: NDArray[np.int64], joined: float) -> Handle:
        """One rank keeps its rows; no byte moves."""
        require_fit(send, receive, sizes, 0)
        receive.copy_(send)
        return _Done(0, joined)

    def all_gather(self, part: torch.Tensor, gathered: torch.Tensor, joined: float) -> Handle:
        """The only part."""
        gathered.copy_(part[None])
        return _Done(0, joined)

    def agree(self, step: int, digest: int) -> None:
        """Nobody to differ from."""

    def reduce_now(self, tensor: torch.Tensor, op: str = "sum") -> None:
        """Nothing to add."""

    def barrier(self) -> None:
        """Nobody to wait for."""

    def close(self) -> None:
        """Nothing is held."""
