"""Join stamps in shared memory: when each rank of a host joined each collective.

Each rank writes its own cells before it launches the real collective, so once that is complete every stamp is
visible, and every rank computes the same finish times without a timer thread or a further exchange.

Legend: C collectives, W ranks.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from odin.errors import RunError

SHARED_MEMORY = Path("/dev/shm")
STAMPS = "odin-"  # the names of all boards begin with it
_STALE_SECONDS = 3600.0


def stamp_folder() -> Path:
    """Memory-backed where the system has it, so that stamps cost no disk."""
    return SHARED_MEMORY if SHARED_MEMORY.is_dir() else Path(tempfile.gettempdir())


def remove_stamps(prefix: str) -> None:
    """Remove boards whose names begin so, and all that are an hour old: ranks remove theirs as soon as each has opened
    them, so these are of runs that were killed in between."""
    for path in stamp_folder().glob(f"{STAMPS}*"):
        with suppress(OSError):  # somebody else's, or gone by now
            if path.name.startswith(prefix) or time.time() - path.stat().st_mtime > _STALE_SECONDS:
                path.unlink()


class JoinStamps:
    """A float64 [C, W] board of monotonic seconds; 0 where a rank has not joined yet."""

    def __init__(self, path: Path, capacity: int, ranks: int) -> None:
        self._board = np.memmap(path, dtype=np.float64, mode="r+", shape=(capacity, ranks))
        self.capacity = capacity

    @classmethod
    def create(cls, path: Path, capacity: int, ranks: int) -> None:
        """Make an empty board at `path`; one rank does this before the others open it."""
        with path.open("wb") as file:
            file.truncate(capacity * ranks * 8)

    def join(self, collective: int, rank: int, now: float) -> None:
        """Stamp this rank's join."""
        if collective >= self.capacity:
            raise AssertionError(f"collective {collective} exceeds the {self.capacity} stamps of this cell")
        self._board[collective, rank] = now

    def last_join(self, collective: int) -> float:
        """The latest join, or NaN while a rank is missing."""
        row = self._board[collective]
        return float(row.max()) if row.min() > 0 else float("nan")

    def absent(self, collective: int) -> list[int]:
        """Ranks that have not joined yet."""
        return np.flatnonzero(self._board[collective] == 0).tolist()


class FinishTimes:
    """Finish times of a link's collectives in order: fin[k] = max(last join[k], fin[k-1]) + duration[k]."""

    def __init__(self, stamps: JoinStamps) -> None:
        self._stamps = stamps
        self._durations: list[float] = []
        self._spans: list[tuple[float, float]] = []

    def launched(self, seconds: float) -> int:
        """Register the next collective, which occupies the link for `seconds`, and return its number."""
        self._durations.append(seconds)
        return len(self._durations) - 1

    def last_join(self, collective: int) -> float:
        """See JoinStamps.last_join."""
        return self._stamps.last_join(collective)

    def absent(self, collective: int) -> list[int]:
        """See JoinStamps.absent."""
        return self._stamps.absent(collective)

    def span(self, collective: int) -> tuple[float, float]:
        """When the link began and ended delivering it. Every rank must have joined it and all before it."""
        while len(self._spans) <= collective:
            k = len(self._spans)
            free = self._spans[-1][1] if k else 0.0
            start = max(self._stamps.last_join(k), free)
            self._spans.append((start, start + self._durations[k]))
        return self._spans[collective]


class CutBoard:
    """How each rank has cut each step: an int64 [S, W] board, 0 where a rank has not said it yet.

    It is written before a step's first segment leaves, so a rank that cut a step differently is named before its
    segments are added to those of others.
    """

    def __init__(self, path: Path, steps: int, ranks: int) -> None:
        self._board = np.memmap(path, dtype=np.int64, mode="r+", shape=(steps, ranks))

    @classmethod
    def create(cls, path: Path, steps: int, ranks: int) -> None:
        """Make an empty board at `path`; one rank does this before the others open it."""
        with path.open("wb") as file:
            file.truncate(steps * ranks * 8)

    def agree(self, step: int, rank: int, digest: int) -> None:
        """Enter this rank's cut. Raises RunError if another rank has entered a different one."""
        self._board[step, rank] = digest + 1
        self._compare(step)

    def compare_all(self) -> None:
        """Raise RunError if any step was cut differently: asked when a collective has failed, because ranks whose sizes
        differ learn of it only there."""
        for step in np.flatnonzero(self._board.any(axis=1)):
            self._compare(int(step))

    def _compare(self, step: int) -> None:
        said = {r: int(value) for r, value in enumerate(self._board[step]) if value}
        if len(set(said.values())) > 1:
            cuts = ", ".join(f"rank {r}: {value - 1:08x}" for r, value in said.items())
            raise RunError(
                f"Ranks have cut the gradient of step {step} differently ({cuts}). The cut is a function of replicated "
                "state, so their parameters or scopes differ; adding their segments would mix unrelated rows. The run "
                "was stopped and its record is marked failed."
            )
