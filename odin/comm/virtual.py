"""The virtual transport: ranks are threads of one process, sums are real, time is computed (D§7).

A collective is summed in rank order (or its parts are sorted by receiver) by whichever rank joins it last, from the
ranks' own buffers; each rank copies its result when it waits for it. When it starts and finishes follows from the
moments at which the ranks say they joined and from the link model, so a timeline depends on nothing but these: not on
the machine, its load or the order of threads.

Legend: W ranks, C collectives.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from odin.comm.link import Link
from odin.comm.transport import Arrival, Handle, WaitsRaise, require_fit
from odin.errors import RunError
from odin.keeper import Advance

Parts = Mapping[int, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """A kind of collective. combine: every rank's result, in rank order, from the ranks' parts."""

    combine: Callable[[Parts], list[torch.Tensor]]
    seconds: Callable[[Link], float]


def _sum(tensor: torch.Tensor, ranks: int) -> _Kind:
    nbytes = tensor.numel() * tensor.element_size()
    return _Kind(combine=_summed, seconds=lambda link: link.all_reduce_seconds(nbytes, ranks))


def _summed(parts: Parts) -> list[torch.Tensor]:
    total = parts[0].clone()
    for rank in range(1, len(parts)):
        total += parts[rank]
    return [total] * len(parts)


def _gather(nbytes: int, ranks: int) -> _Kind:
    def combine(parts: Parts) -> list[torch.Tensor]:
        return [torch.stack([parts[rank] for rank in range(ranks)])] * ranks

    return _Kind(combine=combine, seconds=lambda link: link.all_gather_seconds(nbytes, ranks))


def _exchange(sizes: NDArray[np.int64], nbytes: NDArray[np.int64]) -> _Kind:
    starts = np.concatenate([np.zeros((len(sizes), 1), np.int64), sizes.cumsum(axis=1)], axis=1)

    def combine(parts: Parts) -> list[torch.Tensor]:
        ranks = range(len(parts))
        return [torch.cat([parts[i][starts[i, j] : starts[i, j + 1]] for i in ranks]) for j in ranks]

    return _Kind(combine=combine, seconds=lambda link: link.exchange_seconds(nbytes))


@dataclass(kw_only=True)
class _Collective:
    """One collective of the exchange. joins: moment of each rank; parts: buffers still to be combined."""

    kind: _Kind
    joins: dict[int, float] = field(default_factory=dict)
    parts: dict[int, torch.Tensor] = field(default_factory=dict)
    results: list[torch.Tensor] | None = None
    start: float = 0.0
    finish: float = 0.0
    taken: int = 0


class Exchange:
    """What the ranks of a virtual group share.

    link:   between any two ranks; one collective at a time, in order
    patience: seconds of real time after which a rank that has not joined is taken for dead
    """

    def __init__(self, ranks: int, link: Link, patience: float = 600.0) -> None:
        self.ranks, self.link, self.patience = ranks, link, patience
        self._changed = threading.Condition()
        self._collectives: dict[int, _Collective] = {}
        self._free = 0.0  # when the link has delivered everything that was joined by all
        self._next = 0  # the next collective to be complete
        self._busy: list[tuple[float, float]] = []  # start and finish of transfers, ascending and disjoint
        self._failure: BaseException | None = None
        self._cuts: dict[int, dict[int, int]] = {}

    def fail(self, error: BaseException) -> None:
        """A rank is lost: everyone who waits learns it."""
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def join(self, number: int, rank: int, tensor: torch.Tensor, moment: float, kind: _Kind | None = None) -> None:
        """Hand in a rank's part; the last one combines them. kind: a sum unless another is given."""
        with self._changed:
            made = _Collective(kind=kind or _sum(tensor, self.ranks))
            collective = self._collectives.setdefault(number, made)
            collective.joins[rank], collective.parts[rank] = moment, tensor
            whole = len(collective.joins) == self.ranks
        if not whole:
            return
        results = collective.kind.combine(collective.parts)
        with self._changed:
            collective.results = results
            collective.parts.clear()
            self._deliver()
            self._changed.notify_all()

    def _deliver(self) -> None:
        """Fix the times of collectives that are complete, in order: the link is one queue."""
        while (following := self._collectives.get(self._next)) is not None and following.results is not None:
            following.start = max(max(following.joins.values()), self._free)
            following.finish = following.start + following.kind.seconds(self.link)
            self._free = following.finish
            self._busy.append((following.start, following.finish))
            self._next += 1

    def advance(self, launched: int, start: float, seconds: float, slowdown: float) -> float:
        """When `seconds` of compute that begin at `start` are done, if they take `slowdown` times as long while a
        transfer is in flight. `launched`: collectives that this rank has joined so far.

        Exact, because the link's whole future up to that moment is known: a collective that this rank has not joined
        cannot start before it does, which is after this phase; the times of those that it has joined are fixed once
        the other ranks have joined them too, and that is waited for in real time. The rank that has joined fewest
        never waits here, so ranks cannot wait for one another in a circle.
        """
        with self._changed:
            self._wait(lambda: launched <= self._next)
            first = bisect_right(self._busy, start, key=lambda transfer: transfer[1])
            return stretch_over(self._busy, first, start, seconds, slowdown)

    def take(self, number: int, rank: int, target: torch.Tensor) -> Arrival:
        """Wait until all ranks have joined, then copy this rank's result."""
        with self._changed:
            collective = self._collectives[number]
            self._wait(lambda: number < self._next)
            results = collective.results
            assert results is not None
        target.copy_(results[rank])
        with self._changed:
            collective.taken += 1
            if collective.taken == self.ranks:
                collective.results = None
                del self._collectives[number]
        joined, last = collective.joins[rank], max(collective.joins.values())
        return Arrival(
            joined=joined, last_join=last, start=collective.start, finish=collective.finish, real=collective.finish
        )

    def _wait(self, ready: object) -> None:
        done = self._changed.wait_for(lambda: self._failure is not None or ready(), timeout=self.patience)  # type: ignore[operator]
        if self._failure is not None:
            raise RunError("Another rank of this run has failed; this one was stopped.") from self._failure
        if not done:
            raise RunError(f"A rank has not joined a collective for {self.patience:.0f} s; the run was stopped.")

    def agree(self, step: int, rank: int, digest: int) -> None:
        """See Transport.agree."""
        with self._changed:
            said = self._cuts.setdefault(step, {})
            said[rank] = digest
            if len(said) == self.ranks:
                del self._cuts[step]
        if len(set(said.values())) > 1:
            cuts = ", ".join(f"rank {r}: {value:08x}" for r, value in sorted(said.items()))
            raise RunError(f"Ranks have cut the gradient of step {step} differently ({cuts}); the run was stopped.")


def stretch_over(
    busy: Sequence[tuple[float, float]], first: int, start: float, seconds: float, slowdown: float
) -> float:
    """End of `seconds` of compute from `start` on, `slowdown` times slower inside the intervals `busy[first:]`
    (ascending, disjoint, none over by `start`)."""
    now, left = start, seconds
    for opens, closes in busy[first:]:
        alone = max(0.0, opens - now)
        if left <= alone:
            break
        now, left = now + alone, left - alone
        inside = (closes - now) / slowdown
        if left <= inside:
            return now + left * slowdown
        now, left = closes, left - inside
    return now + left


class _Handle:
    def __init__(self, exchange: Exchange, number: int, rank: int, target: torch.Tensor, nbytes: int) -> None:
        self.nbytes = nbytes
        self._exchange, self._number, self._rank, self._target = exchange, number, rank, target
        self._arrival: Arrival | None = None

    def wait(self) -> Arrival:
        if self._arrival is None:
            self._arrival = self._exchange.take(self._number, self._rank, self._target)
        return self._arrival


class VirtualTransport(WaitsRaise):
    """One rank's side of an exchange. Control collectives (`reduce_now`, `barrier`) take no virtual time."""

    def __init__(self, exchange: Exchange, control: Exchange, rank: int) -> None:
        self.rank, self.ranks = rank, exchange.ranks
        self._exchange, self._control = exchange, control
        self._launched = self._controlled = 0

    def pace(self, slowdown: float) -> Advance | None:
        """How this rank's clock advances where compute takes `slowdown` times as long during a transfer (D§7,
        `overlap_slowdown`); None for 1, where transfers do not slow compute down."""
        if slowdown == 1.0:
            return None
        return lambda start, seconds: self._exchange.advance(self._launched, start, seconds, slowdown)

    def all_reduce(self, tensor: torch.Tensor, joined: float) -> Handle:
        """Join the next collective at the virtual moment `joined`."""
        nbytes = tensor.numel() * tensor.element_size()
        return self._launch(tensor, tensor, joined, _sum(tensor, self.ranks), nbytes)

    def all_to_all(self, send: torch.Tensor, receive: torch.Tensor, sizes: NDArray[np.int64], joined: float) -> Handle:
        """See ExchangeTransport."""
        nbytes = require_fit(send, receive, sizes, self.rank)
        kind = _exchange(sizes, nbytes)
        return self._launch(send, receive, joined, kind, int(nbytes[self.rank].sum() - nbytes[self.rank, self.rank]))

    def all_gather(self, part: torch.Tensor, gathered: torch.Tensor, joined: float) -> Handle:
        """See ExchangeTransport."""
        nbytes = part.numel() * part.element_size()
        return self._launch(part, gathered, joined, _gather(self.ranks * nbytes, self.ranks), nbytes)

    def _launch(self, part: torch.Tensor, target: torch.Tensor, joined: float, kind: _Kind, nbytes: int) -> Handle:
        handle = _Handle(self._exchange, self._launched, self.rank, target, nbytes)
        self._exchange.join(self._launched, self.rank, part, joined, kind)
        self._launched += 1
        return handle

    def agree(self, step: int, digest: int) -> None:
        """Compare the step's cut with those of the ranks that were here before. Raises RunError."""
        self._exchange.agree(step, self.rank, digest)

    def reduce_now(self, tensor: torch.Tensor, op: str = "sum") -> None:
        """Sum or maximum over ranks, in place, in no virtual time."""
        if op == "max":
            slots = torch.zeros((self.ranks, *tensor.shape), dtype=tensor.dtype)
            slots[self.rank] = tensor
            self._reduce(slots)
            tensor.copy_(slots.max(dim=0).values)
        else:
            self._reduce(tensor)

    def _reduce(self, tensor: torch.Tensor) -> None:
        number, self._controlled = self._controlled, self._controlled + 1
        self._control.join(number, self.rank, tensor, 0.0)
        self._control.take(number, self.rank, tensor)

    def barrier(self) -> None:
        """Wait for every rank, in no virtual time."""
        self._reduce(torch.zeros(1))

    def close(self) -> None:
        """Nothing is held."""
