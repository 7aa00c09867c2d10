"""What the runtime needs of communication: asynchronous sums that complete in order, with stamps.

Legend: W ranks. All stamps are seconds of one monotonic clock shared by the ranks of a host.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import torch


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


class _Done:
    def __init__(self, nbytes: int, now: float) -> None:
        self.nbytes = nbytes
        self._arrival = Arrival(joined=now, last_join=now, start=now, finish=now, real=now)

    def wait(self) -> Arrival:
        return self._arrival


class SingleRank:
    """The transport of one rank: every sum is already complete."""

    rank = 0
    ranks = 1

    def all_reduce(self, tensor: torch.Tensor, joined: float) -> Handle:
        """The sum of one rank is the tensor itself."""
        return _Done(tensor.numel() * tensor.element_size(), joined)

    def agree(self, step: int, digest: int) -> None:
        """Nobody to differ from."""

    def reduce_now(self, tensor: torch.Tensor, op: str = "sum") -> None:
        """Nothing to add."""

    def barrier(self) -> None:
        """Nobody to wait for."""

    def close(self) -> None:
        """Nothing is held."""
