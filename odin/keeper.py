"""Time keeping: phases, waits and joins of one rank, on the wall clock or padded to nominal times (D§7).

Padding is to a deadline. Phases only move the deadline forward by their nominal time, so a slow phase eats the
next one's slack. A join is stamped with the deadline, which is when this rank nominally gets there; the real
collective starts when the rank really does, early or late, which changes nothing as long as its sum is there
before the link model says so. The rank really sleeps where it waits. Being late at a join or at the beginning of
a wait, or a real sum later than its link, counts as an overrun, and the lateness stays in the timeline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from odin.clock import sleep_until
from odin.comm.transport import Arrival, Handle
from odin.phases import Category, Phase

# A point is late when it is missed by more than this: waking up, and the real exchange of a few kilobytes, whose link
# time is shorter than gloo's on a busy machine. Less than that is caught up within the slack of the next phase; if it
# is not, the next point is late.
LATE_SECONDS = 2e-3


@dataclass(kw_only=True)
class Work:
    """What a phase worked on; the features that its price is a function of (D§7)."""

    rows: int = 0
    entries: int = 0
    fragments: int = 0
    pixels: int = 0


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One row of a rank's timeline. Times are monotonic seconds; `cpu` is thread CPU seconds of a phase."""

    step: int
    kind: str
    name: str
    category: str
    start: float
    end: float
    last_join: float = float("nan")
    nbytes: int = 0
    work: Work = field(default_factory=Work)
    cpu: float = 0.0


class Keeper:
    """Wall-clock time keeping: records what really happened."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.step = 0
        self.points: list[int] = []
        self.late_steps: set[int] = set()
        self._counted_as: Category | None = None

    def begin(self) -> float:
        """Start the cell's clock and return its origin."""
        return time.monotonic()

    def now(self) -> float:
        """The moment this rank has reached."""
        return time.monotonic()

    @contextmanager
    def counted_as(self, category: Category) -> Iterator[None]:
        """Count every phase inside as `category`, whatever it does: a recomputed view is no useful work."""
        outer, self._counted_as = self._counted_as, category
        try:
            yield
        finally:
            self._counted_as = outer

    @contextmanager
    def phase(self, phase: Phase, *, rows: int = 0, pixels: int = 0) -> Iterator[Work]:
        """Time a phase. Work that is known only afterwards is set on the yielded object."""
        work = Work(rows=rows, pixels=pixels)
        start, cpu = time.monotonic(), time.thread_time()
        yield work
        self._close(phase, work, start, time.monotonic(), time.thread_time() - cpu)

    def _close(self, phase: Phase, work: Work, start: float, end: float, cpu: float) -> None:
        self._add("phase", phase.value, self._counted_as or phase.category, start, end, work=work, cpu=cpu)

    def _add(self, kind: str, name: str, category: Category, start: float, end: float, **more: object) -> None:
        fields = {"step": self.step, "kind": kind, "name": name, "category": category.value}
        self.entries.append(Entry(**fields, start=start, end=end, **more))  # type: ignore[arg-type]

    def join(self) -> float:
        """The moment at which this rank joins the collective it is about to launch."""
        return time.monotonic()

    def wait(self, handle: Handle, name: str) -> Arrival:
        """Wait for a collective and record how long and for whom; `points` remembers where in `entries`."""
        self.points.append(len(self.entries))
        start = time.monotonic()
        arrival = handle.wait()
        self._waited(name, start, max(arrival.finish, start), arrival, handle.nbytes)
        return arrival

    def _waited(self, name: str, start: float, end: float, arrival: Arrival, nbytes: int) -> None:
        last = arrival.last_join
        self._add("wait", name, Category.WAIT, start, end, last_join=last)
        self._add("collective", name, Category.LINK, arrival.start, arrival.finish, last_join=last, nbytes=nbytes)


Price = Callable[[str, Work], float]


class PaddedKeeper(Keeper):
    """Time keeping on nominal phase times: the maths is real, its duration is the profile's.

    price: (phase name, work) → nominal seconds, already multiplied by the padding factor s
    """

    def __init__(self, price: Price) -> None:
        super().__init__()
        self._price = price
        self._deadline = 0.0
        self._worked = False  # a phase has run since the last join or wait

    def begin(self) -> float:
        """Start the cell's clock; the first deadline is now."""
        self._deadline = time.monotonic()
        return self._deadline

    def now(self) -> float:
        """The deadline reached so far."""
        return self._deadline

    def _close(self, phase: Phase, work: Work, start: float, end: float, cpu: float) -> None:
        start, self._worked = self._deadline, True
        self._deadline += self._price(phase.value, work)
        category = self._counted_as or phase.category
        self._add("phase", phase.value, category, start, self._deadline, work=work, cpu=cpu)

    def join(self) -> float:
        """The deadline; the real launch follows at once."""
        self._require_punctual()
        return self._deadline

    def wait(self, handle: Handle, name: str) -> Arrival:
        """Wait, sleep to the later of deadline and delivery, and start the next deadline there."""
        self.points.append(len(self.entries))
        called = self._require_punctual()
        start = self._deadline
        arrival = handle.wait()
        self._deadline = max(start, arrival.finish)
        self._waited(name, start, self._deadline, arrival, handle.nbytes)
        if arrival.real > max(called, self._deadline) + LATE_SECONDS:
            self._overrun(arrival.real)
        sleep_until(self._deadline)
        return arrival

    def _require_punctual(self) -> float:
        """Note it when work has ended after its deadline; the moment now. Where no phase has run since the last
        point, only waking up or a launch took time, which is the emulation's and not the pipeline's."""
        now = time.monotonic()
        if self._worked and now > self._deadline + LATE_SECONDS:
            self._overrun(now)
        self._worked = False
        return now

    def _overrun(self, until: float) -> None:
        """The lateness becomes part of the timeline."""
        self.late_steps.add(self.step)
        self._add("phase", Phase.OVERRUN.value, Phase.OVERRUN.category, self._deadline, until)
        self._deadline = until
