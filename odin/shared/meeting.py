"""Where the ranks of one process meet, to do once or together what each of them would do alike."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from odin.errors import RunError

T = TypeVar("T")


class Meeting:
    """A meeting of `ranks` threads. Every rank makes the same calls in the same order.

    patience: seconds of real time after which a rank that has not come is taken for dead
    """

    def __init__(self, ranks: int, patience: float = 600.0) -> None:
        self.ranks = ranks
        self._patience = patience
        self._gate = threading.Barrier(ranks)
        self._changed = threading.Condition()
        self._made: dict[int, tuple[Any, int]] = {}  # number of the call → its value, and how many ranks have it
        self._calls = [0] * ranks
        self._begun = 0  # calls that some rank has begun to compute
        self._failed = False

    def abort(self) -> None:
        """A rank is lost: everyone who waits here learns it."""
        with self._changed:
            self._failed = True
            self._changed.notify_all()
        self._gate.abort()

    def once(self, rank: int, compute: Callable[[], T]) -> T:
        """What `compute` gives on the rank that comes first; the others take the same object, and must not change it.

        For values that every rank would compute alike, bit for bit, from state that all of them share at this point.
        """
        number = self._calls[rank]
        self._calls[rank] += 1
        with self._changed:
            first = number == self._begun
            self._begun += first
        if first:
            value = compute()
            with self._changed:
                self._made[number] = (value, 1)
                if self.ranks == 1:
                    del self._made[number]
                self._changed.notify_all()
            return value
        return self._taken(number)

    def _taken(self, number: int) -> Any:
        with self._changed:
            there = self._changed.wait_for(lambda: self._failed or number in self._made, timeout=self._patience)
            if self._failed or not there:
                raise _lost()
            value, takers = self._made[number]
            self._made[number] = (value, takers + 1)
            if takers + 1 == self.ranks:
                del self._made[number]
        return value

    def together(self, task: Callable[[], None]) -> None:
        """Every rank does its part of something, when all have come; all go on when all parts are done."""
        self.everyone()
        task()
        self.everyone()

    def everyone(self) -> None:
        """Wait for every rank. Raises RunError when one is lost."""
        try:
            self._gate.wait(timeout=self._patience)
        except threading.BrokenBarrierError:
            raise _lost() from None


def part_of(count: int, rank: int, ranks: int) -> slice:
    """The rank's share of `count` things, as even as it gets."""
    return slice(rank * count // ranks, (rank + 1) * count // ranks)


def _lost() -> RunError:
    return RunError("Another rank of this run has failed; this one was stopped.")
