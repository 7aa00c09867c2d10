"""Gloo between hosts: the real network, what was seen is what it took (D§7, label `measured`).

Ranks of one host share memory for join stamps and a clock (`odin.comm.gloo`). Across hosts each rank keeps its own
joins, and when a cell is over they are put on one clock and exchanged: nothing is sent for them while anything is
timed. An emulated link needs them in mid-step, so it exists on one host only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
import torch.distributed as dist

from odin.comm.cuts import StoreCuts
from odin.comm.deferred import DeferredArrival
from odin.comm.gloo import GlooRanks
from odin.comm.hosts import HostClock
from odin.comm.link import UNSHAPED
from odin.comm.transport import Arrival, Handle, Reduction
from odin.keeper import Entry, Keeper


class SeenArrival(DeferredArrival):
    """An arrival of which this rank knows its own part: when it joined and when it saw the sum."""

    def __init__(self, read: Callable[[], Arrival], joined: float, seen: float) -> None:
        super().__init__(read)
        self._joined, self._seen = joined, seen

    @property
    def joined(self) -> float:
        """See Arrival."""
        return self._joined

    @property
    def finish(self) -> float:
        """See Arrival."""
        return self._seen

    @property
    def real(self) -> float:
        """See Arrival."""
        return self._seen


class _Collective:
    """One collective under way. `block` returns when it is there, or raises what went wrong with it."""

    def __init__(self, block: Callable[[], object], joined: float, nbytes: int, read: Callable[[], Arrival]) -> None:
        self.nbytes, self.joined = nbytes, joined
        self._block, self._read = block, read
        self.seen: float | None = None

    def wait(self) -> Arrival:
        """Wait for the sum. The other ranks' part of the arrival can be read after `settle`."""
        if self.seen is None:
            self._block()
            self.seen = time.monotonic()
        return SeenArrival(self._read, self.joined, self.seen)


class SpreadTransport(GlooRanks):
    """Ranks of an initialised gloo process group on several hosts. The link is the real one.

    group: carries the asynchronous sums, see `in_order_group`; nothing else may use it until `close`
    cuts:  belong to this cell alone
    clock: as measured by `round_trips`
    """

    def __init__(
        self,
        group: dist.ProcessGroupGloo,
        cuts: StoreCuts,
        clock: HostClock,
        reduction: Reduction = Reduction.NATIVE,
    ) -> None:
        super().__init__(group, cuts, UNSHAPED, reduction)
        self.clock, self._own_cuts = clock, cuts
        self._launched: list[_Collective] = []
        self._arrivals: list[Arrival] = []
        clock.anchor()

    def _launch(self, start: Callable[[], Callable[[], object]], seconds: float, joined: float, nbytes: int) -> Handle:
        self._own_cuts.check()
        handle = _Collective(start(), joined, nbytes, partial(self._arrival, len(self._launched)))
        self._launched.append(handle)
        return handle

    def _arrival(self, number: int) -> Arrival:
        if number >= len(self._arrivals):
            raise AssertionError(f"the arrival of collective {number} was read before the transport was settled")
        return self._arrivals[number]

    def settle(self) -> None:
        """Make all arrivals readable. Every rank calls it together, once, when the cell is over."""
        self.clock.anchor()
        last = torch.tensor([self.clock.common(one.joined) for one in self._launched], dtype=torch.float64)
        if self._launched:
            self.reduce_now(last, "max")
        free = 0.0
        for one, latest in zip(self._launched, last.tolist(), strict=True):
            finish = one.seen if one.seen is not None else self.clock.own(latest)
            # Clocks of hosts agree only so far: a peer cannot have joined after its sum was here.
            latest = min(self.clock.own(latest), finish)
            start = min(max(latest, free), finish)
            arrival = Arrival(joined=one.joined, last_join=latest, start=start, finish=finish, real=finish)
            self._arrivals.append(arrival)
            free = finish

    def close(self) -> None:
        """End the threads of the ordered sums and of the cuts."""
        super().close()
        self._own_cuts.close()


class SpreadKeeper(Keeper):
    """The wall clock of a rank whose peers are on other hosts: when they joined is entered when the cell is over."""

    def __init__(self) -> None:
        super().__init__()
        self._late: list[tuple[int, Arrival]] = []  # row of a wait in `entries`; its collective is the next one

    def _waited(self, name: str, start: float, end: float, arrival: Arrival, nbytes: int) -> None:
        self._late.append((len(self.entries), arrival))
        seen = Arrival(joined=arrival.joined, last_join=float("nan"), start=arrival.finish, finish=arrival.finish,
                       real=arrival.finish)  # fmt: skip
        super()._waited(name, start, end, seen, nbytes)

    def completed(self, entries: list[Entry]) -> list[Entry]:
        """The first rows of `entries` with what was not known when they were made. Call it after `settle`."""
        whole = list(entries)
        for row, arrival in self._late:
            if row + 1 < len(whole):
                last = arrival.last_join
                whole[row] = replace(whole[row], last_join=last)
                whole[row + 1] = replace(whole[row + 1], last_join=last, start=arrival.start)
        return whole
