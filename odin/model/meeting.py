"""Where the ranks' sums meet while their programs are recorded: threads of one process, without a clock.

A rank that waits for a sum which can never be whole is stopped, so that also programs that deadlock are recorded.
"""

from __future__ import annotations

import threading

import torch


class StuckError(Exception):
    """Every rank that still runs waits for a collective that not all ranks have joined."""


class Meeting:
    """Sums in rank order of what each rank has joined with, by number."""

    def __init__(self, ranks: int) -> None:
        self._changed = threading.Condition()
        self._joined: list[list[torch.Tensor]] = [[] for _ in range(ranks)]
        self._waiting: dict[int, int] = {}
        self._running = ranks
        self._stuck = False

    def join(self, rank: int, tensor: torch.Tensor) -> int:
        """Contribute to the rank's next collective; its number."""
        with self._changed:
            self._joined[rank].append(tensor.clone())
            self._changed.notify_all()
            return len(self._joined[rank]) - 1

    def finish(self, rank: int, number: int, into: torch.Tensor) -> None:
        """Wait for a sum and put it into the rank's tensor. Terms of another shape are left out: ranks that send
        different things are the model's to find. Raises StuckError."""
        with self._changed:
            self._waiting[rank] = number
            self._note_stuck()
            self._changed.wait_for(lambda: self._whole(number) or self._stuck)
            if not self._whole(number):
                raise StuckError
            del self._waiting[rank]
            terms = [joined[number] for joined in self._joined]
        fitting = [term for term in terms if term.shape == into.shape and term.dtype == into.dtype]
        into.copy_(torch.stack(fitting).sum(dim=0))

    def leave(self) -> None:
        """A rank has ended."""
        with self._changed:
            self._running -= 1
            self._note_stuck()

    def _whole(self, number: int) -> bool:
        return all(len(joined) > number for joined in self._joined)

    def _note_stuck(self) -> None:
        if len(self._waiting) == self._running and not any(self._whole(n) for n in self._waiting.values()):
            self._stuck = True
        self._changed.notify_all()
