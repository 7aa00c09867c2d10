"""Finding the rank that a collective waits for in vain.

With events instead of host waits nobody on the host notices that a peer died: the device just never gets further, and
the host blocks once the launch queue is full. So a thread looks at the oldest unfinished collective. Once that is
overdue, it asks all ranks through the rendezvous store, names those that do not answer, have not launched it or have
launched another in its place, and aborts the communicators, which releases the device and with it the host.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from odin.errors import RunError

_INTERVAL = 1.0  # seconds between looks
_GRACE = 5.0  # seconds that the others have for an answer; several looks of theirs
_RECENT = 1024  # collectives whose names a rank still knows; the host runs a few steps ahead at most
_QUESTION = "odin-watchdog-question"


class Store(Protocol):
    """What is used of `torch.distributed.Store`. It raises RuntimeError where its server is gone."""

    def set(self, key: str, value: str, /) -> None:
        """Write a key."""
        ...

    def get(self, key: str, /) -> bytes:
        """Read a key that exists."""
        ...

    def check(self, keys: list[str], /) -> bool:
        """Whether all keys exist."""
        ...


class Watchdog:
    """Looks after one rank's collectives.

    patience: seconds a collective may take once those before it are complete; computation of the slowest rank counts
    abort:    gives up all communicators; called once, from the watchdog's thread
    """

    def __init__(
        self,
        store: Store,
        rank: int,
        ranks: int,
        *,
        patience: float,
        abort: Callable[[], None],
        interval: float = _INTERVAL,
        grace: float = _GRACE,
    ) -> None:
        self.failure: RunError | None = None
        self._store, self._rank, self._ranks = store, rank, ranks
        self._patience, self._abort, self._interval, self._grace = patience, abort, interval, grace
        self._waiting: deque[Callable[[], bool]] = deque()
        self._since = 0.0  # when the oldest unfinished collective became the oldest
        self._launched = 0
        self._names: deque[str] = deque(maxlen=_RECENT)
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Look from now on, in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="odin-watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def watch(self, name: str, done: Callable[[], bool]) -> None:
        """A collective was launched. `name` is the same on every rank; `done` tells without blocking, on any thread,
        whether it is complete."""
        with self._lock:
            self._launched += 1
            self._names.append(name)
            if not self._waiting:
                self._since = time.monotonic()
            self._waiting.append(done)

    def check(self) -> None:
        """Raise the RunError that was found, if any."""
        if self.failure is not None:
            raise self.failure

    def agree(self, step: int, digest: int) -> None:
        """Enter how this rank has cut a step; RunError if a neighbour has entered a different cut. Of two neighbours
        the one that comes later sees both; the collectives' own sizes and names tell of the rest."""
        key = "odin-cut/{}/{}".format
        with suppress(RuntimeError):  # without its server nobody can compare; the collective itself will fail
            self._store.set(key(step, self._rank), str(digest))
            for other in {(self._rank - 1) % self._ranks, (self._rank + 1) % self._ranks} - {self._rank}:
                if self._store.check([key(step, other)]) and int(self._store.get(key(step, other))) != digest:
                    self.failure = RunError(
                        f"Ranks {self._rank} and {other} have cut the gradient of step {step} differently. It is a "
                        "function of replicated state, so their parameters or scopes differ. The run was stopped and "
                        "its record is marked failed."
                    )
        self.check()

    def look(self) -> None:
        """One look: answer whoever asks, drop what is complete, give up on what is overdue."""
        with suppress(RuntimeError):  # without its server nobody can ask
            if self._store.check([_QUESTION]):
                self._answer()
        with self._lock:
            while self._waiting and self._waiting[0]():
                self._waiting.popleft()
                self._since = time.monotonic()
            overdue = bool(self._waiting) and time.monotonic() - self._since > self._patience
            number = self._launched - len(self._waiting)
        if overdue and self.failure is None:
            self.failure = RunError(self._blame(number))
            self._abort()

    def _run(self) -> None:
        while self.failure is None and not self._stop.wait(self._interval):
            self.look()

    def _answer(self) -> None:
        with self._lock:
            names = dict(zip(range(self._launched - len(self._names), self._launched), self._names, strict=True))
        self._store.set(f"{_QUESTION}-{self._rank}", json.dumps(names))

    def _blame(self, number: int) -> str:
        with self._lock:
            name = self._names[number - self._launched]
        try:
            who = _differing(self._ask(), self._ranks, number, name)
        except RuntimeError as error:
            who = f"the rendezvous store does not answer either ({error}); the rank that serves it, normally 0, is gone"
        return (
            f"Collective {number} ({name}) did not complete within {self._patience:g} s on rank {self._rank}: {who}. "
            "All collectives were aborted and the run stopped; see the logs of the ranks named."
        )

    def _ask(self) -> dict[int, dict[str, str]]:
        """Names of the recent collectives of each rank that answers in time, by number."""
        self._store.set(_QUESTION, str(self._rank))
        self._answer()
        deadline = time.monotonic() + self._grace
        missing = set(range(self._ranks))
        answers: dict[int, dict[str, str]] = {}
        while missing and time.monotonic() < deadline:
            for rank in sorted(missing):
                if self._store.check([f"{_QUESTION}-{rank}"]):
                    answers[rank] = json.loads(self._store.get(f"{_QUESTION}-{rank}"))
                    missing.discard(rank)
            time.sleep(self._grace / 50)
        return answers


def _differing(answers: dict[int, dict[str, str]], ranks: int, number: int, name: str) -> str:
    """Which ranks are to blame for a collective, in words."""
    launched = {rank: names.get(str(number)) for rank, names in answers.items()}
    silent = [rank for rank in range(ranks) if rank not in launched]
    behind = [rank for rank, theirs in launched.items() if theirs is None]
    others = {rank: theirs for rank, theirs in launched.items() if theirs not in (None, name)}
    parts = [f"rank(s) {silent} gave no sign of life"] if silent else []
    parts += [f"rank(s) {behind} are alive but never launched it"] if behind else []
    parts += [f"rank {rank} launched another in its place ({theirs})" for rank, theirs in others.items()]
    return " and ".join(parts) or "every rank has launched it, so the interconnect is stuck (try NCCL_DEBUG=INFO)"
