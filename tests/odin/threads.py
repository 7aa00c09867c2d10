"""Two or more ranks as threads of one process: real concurrency and order, no process start."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import torch

from odin.comm.transport import Arrival

_PATIENCE = 60.0


class Exchange:
    """What the ranks of a group share. Sums are taken in rank order."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.meeting = threading.Barrier(ranks, timeout=_PATIENCE)
        self.lock = threading.Condition()
        self.sent: dict[int, dict[int, torch.Tensor]] = {}
        self.log: list[list[int]] = [[] for _ in range(ranks)]
        self.cuts: dict[int, set[int]] = {}


class _Pending:
    def __init__(self, exchange: Exchange, number: int, target: torch.Tensor) -> None:
        self.nbytes = target.numel() * target.element_size()
        self._exchange, self._number, self._target = exchange, number, target
        self._arrival: Arrival | None = None

    def wait(self) -> Arrival:
        if self._arrival is None:
            exchange = self._exchange
            with exchange.lock:
                whole = exchange.lock.wait_for(
                    lambda: len(exchange.sent[self._number]) == exchange.ranks, timeout=_PATIENCE
                )
                assert whole, "a rank never joined"
                parts = exchange.sent[self._number]
            total = parts[0].clone()
            for rank in range(1, exchange.ranks):
                total += parts[rank]
            self._target.copy_(total)
            now = time.monotonic()
            self._arrival = Arrival(joined=now, last_join=now, start=now, finish=now, real=now)
        return self._arrival


class ThreadTransport:
    """One rank's view of an exchange."""

    def __init__(self, exchange: Exchange, rank: int) -> None:
        self._exchange, self.rank, self.ranks = exchange, rank, exchange.ranks
        self._number = 0

    def all_reduce(self, tensor: torch.Tensor, joined: float) -> _Pending:
        number = self._number
        self._number += 1
        exchange = self._exchange
        exchange.log[self.rank].append(tensor.numel())
        with exchange.lock:
            exchange.sent.setdefault(number, {})[self.rank] = tensor.clone()
            exchange.lock.notify_all()
        return _Pending(exchange, number, tensor)

    def agree(self, step: int, digest: int) -> None:
        with self._exchange.lock:
            cuts = self._exchange.cuts.setdefault(step, set())
            cuts.add(digest)
        assert len(cuts) == 1, f"ranks cut step {step} differently"

    def reduce_now(self, tensor: torch.Tensor, op: str = "sum") -> None:
        assert op == "sum"
        self.all_reduce(tensor, 0.0).wait()

    def barrier(self) -> None:
        self._exchange.meeting.wait()

    def close(self) -> None:
        return None


def run_ranks(ranks: int, main: Callable[[ThreadTransport], object]) -> tuple[list[object], Exchange]:
    """Run `main` on every rank at once; the ranks' results in rank order. The first error is raised here."""
    exchange, results, errors = Exchange(ranks), [None] * ranks, []

    def call(rank: int) -> None:
        try:
            results[rank] = main(ThreadTransport(exchange, rank))
        except BaseException as error:
            errors.append(error)
            exchange.meeting.abort()

    threads = [threading.Thread(target=call, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results, exchange
