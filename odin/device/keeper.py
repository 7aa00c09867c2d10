"""Time keeping on a device: phases and waits are pairs of events on COMPUTE, read when the cell is over (D§7).

Inside a step the host only records events. `resolve` turns them into the timeline of the wall-clock keeper.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from odin.comm.transport import Arrival, Handle
from odin.device.clock import EventClock, Stamp
from odin.device.streams import Lane
from odin.keeper import Keeper, Work
from odin.phases import Phase


@dataclass(frozen=True, kw_only=True)
class _Pair:
    """A recorded interval and what to enter for it once its ends are known."""

    step: int
    start: Stamp
    end: Stamp
    enter: Callable[[float, float], None]


class StreamKeeper(Keeper):
    """Time keeping by events. `entries` and `moments` are complete after `resolve`.

    moments: monotonic seconds of `begin` and of every `now`, in order; what those return at once is when the host got
             there, which may be far ahead of the device
    settle:  makes the arrivals of all collectives so far readable (`NcclTransport.settle`)
    """

    def __init__(self, clock: EventClock, settle: Callable[[], None]) -> None:
        super().__init__()
        self._clock, self._settle = clock, settle
        self._marks: list[Stamp] = []
        self._pairs: list[_Pair] = []
        self._entered = 0  # rows of `entries` that exist or are still to come

    def begin(self) -> float:
        """Anchor the device's clock. Blocks: nothing is timed yet."""
        moment = self._clock.anchor()
        self._marks.append(self._clock.milepost())
        return moment

    def now(self) -> float:
        """Mark the moment; the host's own, for progress only."""
        self._marks.append(self._clock.milepost())
        return time.monotonic()

    @contextmanager
    def phase(self, phase: Phase, *, rows: int = 0, pixels: int = 0) -> Iterator[Work]:
        """Time what is put on COMPUTE. `cpu` is the host's time for putting it there."""
        work = Work(rows=rows, pixels=pixels)
        start, before = self._clock.stamp(Lane.COMPUTE), time.thread_time()
        yield work
        cpu = time.thread_time() - before
        self._defer(start, lambda begun, ended: self._close(phase, work, begun, ended, cpu), rows=1)

    def join(self) -> float:
        """The host's moment of launch. The device joins later, when COMPUTE gets there; the transport stamps that."""
        return time.monotonic()

    def wait(self, handle: Handle, name: str) -> Arrival:
        """Hold COMPUTE back until the sum is there; the host goes on."""
        self.points.append(self._entered)
        start = self._clock.stamp(Lane.COMPUTE)
        arrival = handle.wait()
        self._defer(start, lambda begun, ended: self._waited(name, begun, ended, arrival, handle.nbytes), rows=2)
        return arrival

    def _defer(self, start: Stamp, enter: Callable[[float, float], None], rows: int) -> None:
        end = self._clock.stamp(Lane.COMPUTE)
        self._pairs.append(_Pair(step=self.step, start=start, end=end, enter=enter))
        self._entered += rows

    def forget(self) -> None:
        """See Keeper. Every rank calls it together, where all is published; blocks: what is read need not be kept."""
        self.resolve()
        super().forget()
        self._entered = 0

    def resolve(self) -> None:
        """Read all events so far. Blocks, so only between steps where everything is published, and at the end."""
        self._settle()
        self._clock.anchor()
        pairs, marks, current = self._pairs, self._marks, self.step
        self._pairs, self._marks = [], []
        for pair in pairs:
            self.step = pair.step
            pair.enter(self._clock.moment(pair.start), self._clock.moment(pair.end))
        self.step = current
        self.moments += [self._clock.moment(mark) for mark in marks]
