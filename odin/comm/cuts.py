"""How ranks of several hosts cut each step, compared through the rendezvous store by a thread beside the run (D§6).

A host's ranks compare on a board in shared memory (`odin.comm.stamps.CutBoard`) before a segment leaves. Across hosts
that would put round trips into every step, so here a difference is found a moment later: at the next step, or when a
sum fails because its sizes differ.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from queue import SimpleQueue
from typing import Protocol

from odin.comm.watchdog import Store
from odin.errors import RunError

_LAST_SECONDS = 2.0  # for a neighbour's cut to appear once a sum has failed
_PAUSE = 0.02
_KEPT = 16  # steps; ranks are never so far apart, and a store that grows with the run would fill its server


class CutStore(Store, Protocol):
    """What is used of `torch.distributed.Store`. It raises RuntimeError where its server is gone."""

    def delete_key(self, key: str, /) -> bool:
        """Forget a key."""
        ...


class StoreCuts:
    """One rank's cuts. `store` belongs to this cell alone.

    Of two neighbours in rank order the one that comes later sees both cuts; a chain of equal neighbours is equal.
    """

    def __init__(self, store: CutStore, rank: int, ranks: int) -> None:
        self._store, self._rank = store, rank
        self._others = {(rank - 1) % ranks, (rank + 1) % ranks} - {rank}
        self._said: SimpleQueue[tuple[int, int] | float] = SimpleQueue()
        self._open: dict[int, int] = {}  # cuts of this rank that some neighbour had not reached yet
        self._failure: RunError | None = None
        self._thread = threading.Thread(target=self._work, name="odin-cuts", daemon=True)
        self._thread.start()

    def agree(self, step: int, rank: int, digest: int) -> None:
        """Enter this rank's cut. Raises RunError if a difference was found so far."""
        self._said.put((step, digest))
        self.check()

    def check(self) -> None:
        """Raise the RunError that was found, if any."""
        if self._failure is not None:
            raise self._failure

    def compare_all(self) -> None:
        """Raise RunError if a neighbour has cut a step differently: asked when a sum has failed."""
        self._end(_LAST_SECONDS)
        self.check()

    def close(self) -> None:
        """End the thread when everything that was said is entered."""
        self._end(0.0)

    def _end(self, patience: float) -> None:
        """End the thread; before that it waits so many seconds for cuts that are missing."""
        self._said.put(patience)
        self._thread.join(patience + _LAST_SECONDS)

    def _work(self) -> None:
        with suppress(RuntimeError):  # without its server nobody can compare; the collective itself will fail
            while not isinstance(said := self._said.get(), float):
                step, digest = said
                self._store.set(self._key(step, self._rank), str(digest))
                self._store.delete_key(self._key(step - _KEPT, self._rank))
                self._open[step] = digest
                self._compare()
            deadline = time.monotonic() + said
            while self._compare() and time.monotonic() < deadline:
                time.sleep(_PAUSE)

    def _compare(self) -> bool:
        """Compare with what neighbours have entered; whether some cut is still missing."""
        for step, digest in list(self._open.items()):
            there = [other for other in self._others if self._store.check([self._key(step, other)])]
            for other in there:
                theirs = int(self._store.get(self._key(step, other)))
                if theirs != digest and self._failure is None:
                    self._failure = RunError(
                        f"Ranks {self._rank} and {other} have cut the gradient of step {step} differently "
                        f"({digest:08x} and {theirs:08x}). The cut is a function of replicated state, so their "
                        "parameters or scopes differ; adding their segments would mix unrelated rows. The run was "
                        "stopped and its record is marked failed."
                    )
            if len(there) == len(self._others):
                del self._open[step]
        return bool(self._open) and self._failure is None

    @staticmethod
    def _key(step: int, rank: int) -> str:
        return f"cut/{step}/{rank}"
