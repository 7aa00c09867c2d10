"""Time keeping: phases, waits and joins of one rank, on the wall clock or padded to nominal times (D§7).

Padding is to a deadline. Phases only move the deadline forward by their nominal time, so a slow phase eats the
next one's slack. A join is stamped with the deadline, which is when this rank nominally gets there; the real
collective starts when the rank really does, early or late, which changes nothing as long as its sum is there
before the link model says so. The rank really sleeps where it waits. A rank that goes on from a wait later than its
deadline, and does not catch up in the padding of what follows, has overrun it, for whatever reason; then the lateness
stays in the timeline.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from odin.clock import sleep_until
from odin.comm.transport import Arrival, Handle
from odin.phases import Category, Phase

# A rank lags when it goes on from a wait by more than this after its deadline, and is late when it still lags
# CATCH_UP_SECONDS of nominal time later, or at once when it lags by more than STALL_SECONDS. Virtual machines stall: a
# thread that nothing of the machine may preempt lost up to 4.2 ms within 8 s on an otherwise idle one, and up to 8.7 ms
# within 25 s on a busy one. No nominal time depends on a lag that is caught up: joins carry deadlines, and data that is
# there too late makes its reader lag.
LATE_SECONDS = 5e-3
STALL_SECONDS = 20e-3
CATCH_UP_SECONDS = 50e-3


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


class _Timed:
    """Times one phase. A class, because a generator as a context manager takes twice as long to enter and leave, and a
    step has some 25 phases; a phase that fails is not entered."""

    __slots__ = ("_close", "_cpu", "_phase", "_start", "_work")

    def __init__(self, close: Callable[[Phase, Work, float, float, float], None], phase: Phase, work: Work) -> None:
        self._close, self._phase, self._work = close, phase, work

    def __enter__(self) -> Work:
        self._start, self._cpu = time.monotonic(), time.thread_time()
        return self._work

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        if failed is None:
            cpu = time.thread_time() - self._cpu
            self._close(self._phase, self._work, self._start, time.monotonic(), cpu)


class Keeper:
    """Wall-clock time keeping: records what really happened."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.step = 0
        self.points: list[int] = []
        self.joins: list[int] = []  # where in `entries` each collective was joined, in their order; of nominal clocks
        self.late_steps: set[int] = set()
        self.late_causes: Counter[str] = Counter()  # how often, by what was late
        # Of `begin` and of every `now`, where they are known only after `resolve`; else empty.
        self.moments: list[float] = []
        self._counted_as: Category | None = None
        self.forgotten = 0
        """Entries that were let go of."""

    def forget(self) -> None:
        """Let go of the timeline so far, which grows by some 20 kB per step; for training that is not timed."""
        self.forgotten += len(self.entries)
        self.entries.clear()
        self.points.clear()
        self.joins.clear()

    def begin(self) -> float:
        """Start the cell's clock and return its origin."""
        return time.monotonic()

    def now(self) -> float:
        """The moment this rank has reached."""
        return time.monotonic()

    def resolve(self) -> None:
        """Complete the timeline so far. Every rank calls it together, where all is published; may block."""

    @contextmanager
    def counted_as(self, category: Category) -> Iterator[None]:
        """Count every phase inside as `category`, whatever it does: a recomputed view is no useful work."""
        outer, self._counted_as = self._counted_as, category
        try:
            yield
        finally:
            self._counted_as = outer

    def phase(self, phase: Phase, *, rows: int = 0, pixels: int = 0) -> AbstractContextManager[Work]:
        """Time a phase. Work that is known only afterwards is set on the yielded object."""
        return _Timed(self._close, phase, Work(rows=rows, pixels=pixels))

    def _close(self, phase: Phase, work: Work, start: float, end: float, cpu: float) -> None:
        self._add("phase", phase.value, self._counted_as or phase.category, start, end, work=work, cpu=cpu)

    def _add(self, kind: str, name: str, category: Category, start: float, end: float, **more: object) -> None:
        entry = Entry(step=self.step, kind=kind, name=name, category=category.value, start=start, end=end, **more)  # type: ignore[arg-type]
        self.entries.append(entry)

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
Advance = Callable[[float, float], float]


class NominalKeeper(Keeper):
    """Time keeping on nominal times alone: the maths is real, its duration is the profile's and the link's.

    No timeline that it keeps depends on a clock, so two runs have equal ones.

    price:   (phase name, work) → nominal seconds
    advance: (start, nominal seconds) → end of a phase; None: nominal seconds later. A transport's `pace` makes what
             is computed during a transfer take longer.
    """

    def __init__(self, price: Price, advance: Advance | None = None) -> None:
        super().__init__()
        self._price, self._advance = price, advance
        self._deadline = 0.0
        self._last = ""  # the phase that ended last

    def begin(self) -> float:
        """Start the cell's clock at 0."""
        return self._deadline

    def now(self) -> float:
        """The moment this rank has nominally reached."""
        return self._deadline

    def _close(self, phase: Phase, work: Work, start: float, end: float, cpu: float) -> None:
        start, self._last = self._deadline, phase.value
        seconds = self._price(phase.value, work)
        self._deadline = start + seconds if self._advance is None else self._advance(start, seconds)
        category = self._counted_as or phase.category
        self._add("phase", phase.value, category, start, self._deadline, work=work, cpu=cpu)

    def join(self) -> float:
        """The moment at which this rank nominally joins the collective that it is about to launch."""
        self.joins.append(len(self.entries))
        return self._deadline

    def wait(self, handle: Handle, name: str) -> Arrival:
        """Wait for the sum and go on at its nominal delivery, or now if that has been."""
        self.points.append(len(self.entries))
        start = self._deadline
        arrival = handle.wait()
        self._deadline = max(start, arrival.finish)
        self._waited(name, start, self._deadline, arrival, handle.nbytes)
        return arrival


class PaddedKeeper(NominalKeeper):
    """Nominal times on the wall clock: a rank really sleeps where it waits, and being late is noted.

    Real work may be ahead of or behind nominal time, as long as the rank is back on time soon: a late start of a wait
    that lasts longer changes nothing, nor does a late launch whose sum is there in time.
    """

    def __init__(self, price: Price, advance: Advance | None = None) -> None:
        super().__init__(price, advance)
        self._lags_since: float | None = None  # deadline at which it was first seen

    def begin(self) -> float:
        """Start the cell's clock; the first deadline is now."""
        self._deadline = time.monotonic()
        return self._deadline

    def wait(self, handle: Handle, name: str) -> Arrival:
        """Wait, sleep to the nominal end of the wait, and note it when that is over already."""
        called, last = time.monotonic(), self._last
        arrival = super().wait(handle, name)
        now = time.monotonic()
        if self._is_late(now - self._deadline):
            work = called > self._deadline + LATE_SECONDS
            self._overrun(now, f"work up to {last}" if work else f"sum of {name}")
        sleep_until(self._deadline)
        return arrival

    def _is_late(self, lag: float) -> bool:
        """A lag that is too large, or that has not been caught up."""
        if lag <= LATE_SECONDS:
            self._lags_since = None
            return False
        if self._lags_since is None:
            self._lags_since = self._deadline
        return lag > STALL_SECONDS or self._deadline - self._lags_since > CATCH_UP_SECONDS

    def _overrun(self, until: float, cause: str) -> None:
        """The lateness becomes part of the timeline."""
        self.late_steps.add(self.step)
        self.late_causes[cause] += 1
        self._add("phase", Phase.OVERRUN.value, Phase.OVERRUN.category, self._deadline, until)
        self._deadline = until
        self._lags_since = None
