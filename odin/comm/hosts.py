"""One clock for the ranks of several hosts: every rank measures how far rank 0's monotonic clock is from its own (D§7).

Nothing of it happens inside a step. Clocks drift apart by some µs a second, so moments are interpolated between
anchors, one before and one after what is timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
import torch.distributed as dist

_ROUNDS = 16  # the shortest round trip counts; the others met something on their way
_TAG = 4711

Trip = Callable[[], tuple[float, float, float]]


class HostClock:
    """Rank 0's clock, read on this rank.

    measure: all ranks call it together; returns (own moment, offset of rank 0's clock from it, half a round trip)
    """

    def __init__(self, measure: Trip) -> None:
        self._measure = measure
        self._moments: list[float] = []
        self._offsets: list[float] = []
        self.uncertainty = 0.0
        """Seconds that a translated moment may be wrong by: the largest of the anchors'."""

    def anchor(self) -> None:
        """Measure the offset now. All ranks call this together, once before and once after what is timed."""
        moment, offset, half = self._measure()
        self._moments.append(moment)
        self._offsets.append(offset)
        self.uncertainty = max(self.uncertainty, half)

    def common(self, moment: float) -> float:
        """A moment of this rank's clock on rank 0's."""
        return moment + float(np.interp(moment, self._moments, self._offsets))

    def own(self, moment: float) -> float:
        """A moment of rank 0's clock on this rank's."""
        there = [m + o for m, o in zip(self._moments, self._offsets, strict=True)]
        return moment - float(np.interp(moment, there, self._offsets))


def round_trips(clock: Callable[[], float] = time.monotonic) -> tuple[float, float, float]:
    """This rank's offset from rank 0 over the default process group, as `HostClock` wants it. All ranks call it.

    Rank 0 answers the others one after the other; each takes rank 0's answer for the middle of its shortest trip.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if rank > 0:
        return min((_trip(clock) for _ in range(_ROUNDS)), key=lambda trip: trip[2])
    for other in range(1, ranks):
        for _ in range(_ROUNDS):
            dist.recv(torch.empty(1, dtype=torch.float64), src=other, tag=_TAG)
            dist.send(torch.tensor([clock()], dtype=torch.float64), dst=other, tag=_TAG)
    return clock(), 0.0, 0.0


def _trip(clock: Callable[[], float]) -> tuple[float, float, float]:
    answer = torch.empty(1, dtype=torch.float64)
    left = clock()
    dist.send(torch.zeros(1, dtype=torch.float64), dst=0, tag=_TAG)
    dist.recv(answer, src=0, tag=_TAG)
    back = clock()
    middle = (left + back) / 2
    return middle, float(answer[0]) - middle, (back - left) / 2
