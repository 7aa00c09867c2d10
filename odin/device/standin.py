"""A CPU stand-in for a device's streams that logs what was put where and delays collectives as long as it may.

COMPUTE runs at once, as CPU kernels do. COMMUNICATION runs only when somebody waits for it, so a reader that forgot to
wait sees the values before the sum. Where no wrong value would show, the log tells: it holds every operation in the
order in which the host put it on its lane.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from odin.device.streams import Event, Lane

_PATIENCE = 60.0
_PAUSE = 1e-4


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation as the host issued it.

    event:         number of the event recorded or waited for, -1 for other operations
    reads, writes: addresses of the elements it touches, as far as they were noted
    """

    lane: Lane
    name: str
    event: int = -1
    reads: frozenset[int] = frozenset()
    writes: frozenset[int] = frozenset()


class LoggedEvent:
    """An event of `LoggedStreams`. `moment`: seconds at which it was reached, None before."""

    def __init__(self, streams: LoggedStreams, number: int) -> None:
        self._streams = streams
        self.number = number
        self.moment: float | None = None

    def query(self) -> bool:
        """Whether it was reached. Where the lanes' own thread asks, time passes: pending work is tried."""
        return self._streams.reached(self)

    def synchronize(self) -> None:
        """Run pending work up to here. Logged: it blocks the host."""
        self._streams.synchronize(self)

    def elapsed_time(self, end: LoggedEvent, /) -> float:
        """Milliseconds from this event to `end`."""
        assert self.moment is not None and end.moment is not None, "an event was read before it was reached"
        return (end.moment - self.moment) * 1e3


class LoggedStreams:
    """The stand-in; belongs to the thread that makes it. `clock` is the device's own time in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.device = torch.device("cpu")
        self.log: list[Operation] = []
        self._clock, self._owner, self._lane = clock, threading.get_ident(), Lane.COMPUTE
        self._pending: deque[Callable[[], bool]] = deque()
        self._events = 0

    def note(self, name: str, reads: frozenset[int] = frozenset(), writes: frozenset[int] = frozenset()) -> None:
        """Log an operation on the current lane."""
        self.log.append(Operation(lane=self._lane, name=name, reads=reads, writes=writes))

    def enqueue(self, lane: Lane, action: Callable[[], bool]) -> None:
        """Put work on a lane. `action` returns whether it is complete; it is tried again until it is."""
        if lane is Lane.COMMUNICATION:
            self._pending.append(action)
        else:
            self._until(action)

    def current_stream(self) -> Lane:
        """The lane that operations go to."""
        return self._lane

    @contextmanager
    def on(self, lane: Lane) -> Iterator[None]:
        """Send operations to `lane` for a while."""
        before, self._lane = self._lane, lane
        try:
            yield
        finally:
            self._lane = before

    def record(self, lane: Lane) -> LoggedEvent:
        """Mark the end of a lane."""
        event = LoggedEvent(self, self._events)
        self._events += 1
        self.log.append(Operation(lane=lane, name="record", event=event.number))

        def mark() -> bool:
            event.moment = self._clock()
            return True

        self.enqueue(lane, mark)
        return event

    def wait_event(self, lane: Lane, event: Event) -> None:
        """Hold a lane back until `event`."""
        assert isinstance(event, LoggedEvent)
        self.log.append(Operation(lane=lane, name="wait_event", event=event.number))
        if lane is Lane.COMPUTE:  # COMMUNICATION is in order, and COMPUTE is never behind
            self._until(lambda: self.reached(event))

    def reached(self, event: Event) -> bool:
        """Whether an event was reached; see LoggedEvent.query."""
        assert isinstance(event, LoggedEvent)
        mine = threading.get_ident() == self._owner
        while event.moment is None and mine and self._pending and self._pending[0]():
            self._pending.popleft()
        return event.moment is not None

    def synchronize(self, event: Event) -> None:
        """Block the host until `event`."""
        assert isinstance(event, LoggedEvent)
        self.log.append(Operation(lane=self._lane, name="synchronize", event=event.number))
        self._until(lambda: self.reached(event))

    def elapsed(self, start: Event, end: Event) -> float:
        """Seconds between two reached events."""
        return start.elapsed_time(end) / 1e3

    def _until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not done():
            assert time.monotonic() < deadline, "a lane never got that far: some rank never joined"
            time.sleep(_PAUSE)
