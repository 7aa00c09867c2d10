"""NCCL's stand-in: communicators between threads, on the lanes of logged streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.utils._python_dispatch import _disable_current_modes

from odin.comm.nccl import Communicators, NcclTransport
from odin.comm.watchdog import Watchdog
from odin.device.clock import EventClock
from odin.device.keeper import StreamKeeper
from odin.device.standin import LoggedStreams
from tests.odin.discipline import addresses
from tests.odin.threads import Exchange, run_ranks


class _InOrder:
    """The lane is in order anyway."""

    def wait(self) -> None:
        return None


class ThreadCommunicator:
    """One rank's end. A collective completes when every rank's lane has got to it; sums are taken in rank order."""

    def __init__(self, exchange: Exchange, rank: int, streams: LoggedStreams) -> None:
        self._exchange, self._rank, self._streams = exchange, rank, streams
        self._number = 0
        self.aborted = False

    def all_reduce(self, tensor: torch.Tensor, op: str) -> _InOrder:
        number, touched = self._number, addresses(tensor)
        self._number += 1
        self._streams.note("all_reduce", reads=touched, writes=touched)
        self._streams.enqueue(self._streams.current_stream(), lambda: self._try(number, tensor, op))
        return _InOrder()

    def all_to_all(self, send: torch.Tensor, receive: torch.Tensor, out: list[int], back: list[int]) -> _InOrder:
        self._streams.note("all_to_all", reads=addresses(send), writes=addresses(receive))
        return self._moved(
            lambda: send.split(out), lambda parts: [parts[r][self._rank] for r in sorted(parts)], receive
        )

    def all_gather(self, part: torch.Tensor, gathered: torch.Tensor) -> _InOrder:
        self._streams.note("all_gather", reads=addresses(part), writes=addresses(gathered))
        return self._moved(lambda: [part[None]], lambda parts: [parts[r][0] for r in sorted(parts)], gathered)

    def _moved(self, sent: Callable, taken: Callable, target: torch.Tensor) -> _InOrder:
        """sent: this rank's pieces; taken: those for this rank of all, in rank order."""
        number = self._number
        self._number += 1

        def go() -> bool:
            if self.aborted:
                return True
            with _disable_current_modes(), self._exchange.lock:
                parts = self._exchange.sent.setdefault(number, {})
                if self._rank not in parts:
                    parts[self._rank] = [piece.clone() for piece in sent()]
                if len(parts) < self._exchange.ranks:
                    return False
                target.copy_(torch.cat(taken(parts)))
            return True

        self._streams.enqueue(self._streams.current_stream(), go)
        return _InOrder()

    def _try(self, number: int, tensor: torch.Tensor, op: str) -> bool:
        if self.aborted:
            return True
        with _disable_current_modes(), self._exchange.lock:
            parts = self._exchange.sent.setdefault(number, {})
            if self._rank not in parts:
                parts[self._rank] = tensor.clone()
            if len(parts) < self._exchange.ranks:
                return False
            total = parts[0].clone()
            for rank in range(1, self._exchange.ranks):
                total = total + parts[rank] if op == "sum" else torch.maximum(total, parts[rank])
            tensor.copy_(total)
        return True

    def abort(self) -> None:
        self.aborted = True


@dataclass
class Rank:
    """One rank with everything a device side has."""

    rank: int
    ranks: int
    streams: LoggedStreams
    clock: EventClock
    transport: NcclTransport
    keeper: StreamKeeper


def run_device_ranks(
    ranks: int,
    main: Callable[[Rank], object],
    *,
    store: object,
    patience: float = 60.0,
    clocks: Callable[[int], Callable[[], float]] | None = None,
) -> list[object]:
    """Run `main` on every rank at once; the results in rank order. `clocks` gives each rank's device clock."""
    gradients, control = Exchange(ranks), Exchange(ranks)

    def call(thread: object) -> object:
        rank = thread.rank
        streams = LoggedStreams(clocks(rank)) if clocks else LoggedStreams()
        both = [ThreadCommunicator(exchange, rank, streams) for exchange in (gradients, control)]
        communicators = Communicators(gradients=both[0], control=both[1])
        watchdog = Watchdog(store, rank, ranks, patience=patience, abort=communicators.abort, interval=0.02, grace=0.5)
        clock = EventClock(streams)
        transport = NcclTransport(rank, ranks, communicators, clock, watchdog)
        try:
            return main(Rank(rank, ranks, streams, clock, transport, StreamKeeper(clock, transport.settle)))
        finally:
            transport.close()

    return run_ranks(ranks, call)[0]
