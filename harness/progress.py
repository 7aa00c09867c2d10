"""Progress with the remaining time: one moving line on a terminal, a few plain lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

REDRAW_S = 0.2  # of the terminal line; drawn inside update, because a drawing thread would disturb the timing


class Progress:
    """How far a run has come, told on stderr. `label` may be changed while it runs.

    with Progress(150, "barrier") as progress:
        for step in range(150):
            ...
            progress.update(step + 1, f"loss {loss:.4f}")

    In a log a line appears when `every_s` seconds have passed and another tenth is done, or, as a sign of
    life, after six times as long; the last line always appears. The estimate starts with the first update, so
    that compilation in the first step and steps done before a resume do not count.
    """

    def __init__(
        self,
        total: int,
        label: str,
        *,
        stream: TextIO | None = None,
        every_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total = total
        self.label = label
        self.done = 0
        self.note = ""
        self._stream = sys.stderr if stream is None else stream
        self._every_s = every_s
        self._clock = clock
        self._first: tuple[float, int] | None = None
        self._told = (clock(), 0)
        self._bar = _bar(self._stream) if self._stream.isatty() else None
        self._task = self._bar.add_task(label, total=total, told="") if self._bar else None

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def update(self, done: int, note: str = "") -> None:
        """`done` of `total` steps are finished; `note` stands behind the estimate."""
        now = self._clock()
        self.done, self.note = min(done, self.total), note
        if self._first is None:
            self._first = (now, self.done)
        if self._due(now):
            self._tell(now)

    def remaining_s(self) -> float | None:
        """Estimated seconds to go, or None before there is anything to estimate from."""
        if self._first is None or self.done <= self._first[1]:
            return None
        began, at = self._first
        return (self._clock() - began) / (self.done - at) * (self.total - self.done)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tell(self._clock(), stopped=kind is not None)
        if self._bar:
            self._bar.stop()

    def _due(self, now: float) -> bool:
        told_at, told_done = self._told
        if self._bar:
            return now - told_at >= REDRAW_S
        tenth = 10 * (self.done - told_done) >= self.total
        return now - told_at >= self._every_s * (1 if tenth else 6)

    def _tell(self, now: float, stopped: bool = False) -> None:
        self._told = (now, self.done)
        state = "stopped" if stopped else self._estimate()
        told = ", ".join(part for part in (state, self.note) if part)
        if self._bar and self._task is not None:
            self._bar.update(self._task, description=self.label, completed=self.done, told=told, refresh=True)
        else:
            percent = 100 * self.done // self.total if self.total else 100
            line = f"{self.label}: {self.done}/{self.total} ({percent} %), {told}"
            print(line, file=self._stream, flush=True)

    def _estimate(self) -> str:
        if self.done >= self.total:
            return "done"
        seconds = self.remaining_s()
        return "estimating" if seconds is None else f"{duration(seconds)} left"


def duration(seconds: float) -> str:
    """Seconds for people: `42 s`, `3 min 20 s`, `2 h 05 min`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _bar(stream: TextIO) -> Bar:
    # markup off: a label may hold brackets.
    return Bar(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}", markup=False),
        TextColumn("{task.fields[told]}", markup=False),
        console=Console(file=stream),
        auto_refresh=False,
        redirect_stdout=False,  # results may be piped while the bar stands on the terminal
    )
