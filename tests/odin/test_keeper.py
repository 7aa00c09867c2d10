"""Padding to a deadline: slack carries over between phases, lateness counts only where others can see it."""

from __future__ import annotations

import time

import pytest

from odin.comm.transport import Arrival
from odin.keeper import Keeper, NominalKeeper, PaddedKeeper, Work
from odin.phases import Phase


class Immediate:
    nbytes = 8

    def wait(self) -> Arrival:
        now = time.monotonic()
        return Arrival(joined=now, last_join=now, start=now, finish=now, real=now)


def price(phase: str, work: Work) -> float:
    return 0.010 + 0.001 * work.rows


def test_nominal_times_are_what_the_timeline_says() -> None:
    keeper = PaddedKeeper(price)
    origin = keeper.begin()
    with keeper.phase(Phase.PROJECT, rows=5):
        pass
    with keeper.phase(Phase.BLEND) as work:
        work.rows = 10
    keeper.wait(Immediate(), "all")
    first, second, wait = (e for e in keeper.entries if e.kind != "collective")
    assert first.end - origin == pytest.approx(0.015)
    assert second.end - first.end == pytest.approx(0.020)
    assert wait.start == pytest.approx(second.end, abs=2e-3)
    assert time.monotonic() >= second.end


def test_a_slow_phase_eats_the_slack_of_the_next() -> None:
    keeper = PaddedKeeper(price)
    origin = keeper.begin()
    with keeper.phase(Phase.PROJECT):
        time.sleep(0.015)
    with keeper.phase(Phase.BLEND, rows=90):  # 100 ms: slack enough on a busy machine
        pass
    keeper.wait(Delivered(origin), "all")
    assert keeper.now() == pytest.approx(origin + 0.110)
    assert time.monotonic() >= origin + 0.110
    assert not keeper.late_steps


class Delivered:
    """A sum that is there at once and that the link delivers at a given moment."""

    nbytes = 8

    def __init__(self, finish: float) -> None:
        self.finish = finish

    def wait(self) -> Arrival:
        return Arrival(joined=0.0, last_join=0.0, start=0.0, finish=self.finish, real=time.monotonic())


class Clock:
    """In place of the wall clock, so that no stall of this machine decides a test."""

    def __init__(self) -> None:
        self.time = 100.0

    def monotonic(self) -> float:
        return self.time

    thread_time = monotonic

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def until(self, moment: float) -> None:
        self.time = max(self.time, moment)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("odin.keeper.time", made)
    monkeypatch.setattr("odin.keeper.sleep_until", made.until)
    return made


def late(clock: Clock, finish_after: float) -> PaddedKeeper:
    """Work of 10 ms that takes 40, then a wait for what arrives so long after the start."""
    keeper = PaddedKeeper(price)
    origin = keeper.begin()
    keeper.step = 7
    with keeper.phase(Phase.PROJECT):
        clock.sleep(0.04)
    assert keeper.join() == pytest.approx(origin + 0.010)
    keeper.wait(Delivered(origin + finish_after), "all")
    return keeper


def test_being_late_counts_where_a_rank_goes_on_too_late(clock: Clock) -> None:
    keeper = late(clock, 0.015)
    assert keeper.late_steps == {7}
    assert dict(keeper.late_causes) == {"work up to project": 1}
    assert keeper.entries[-1].name == Phase.OVERRUN.value


def test_a_wait_that_lasts_longer_absorbs_it(clock: Clock) -> None:
    keeper = late(clock, 0.060)
    assert not keeper.late_steps
    assert keeper.entries[1].end - keeper.entries[0].start == pytest.approx(0.060)


def lagging(clock: Clock, *, rows: int) -> PaddedKeeper:
    """A stall of 13 ms more than 10 ms of work allow, then four phases of 18 ms with so much slack."""
    keeper = PaddedKeeper(price)
    origin = keeper.begin()
    with keeper.phase(Phase.PROJECT):
        clock.sleep(0.023)
    keeper.wait(Delivered(origin), "first")
    assert not keeper.late_steps
    for _ in range(4):
        with keeper.phase(Phase.BLEND, rows=rows):
            clock.sleep(0.018)
        keeper.wait(Delivered(origin), "next")
    return keeper


def test_a_stall_is_caught_up_in_what_follows(clock: Clock) -> None:
    keeper = lagging(clock, rows=20)  # 30 ms for 18
    assert not keeper.late_steps
    assert keeper.now() == pytest.approx(100.130)
    assert clock.time == pytest.approx(100.130)


def test_a_lag_that_stays_counts(clock: Clock) -> None:
    keeper = lagging(clock, rows=8)  # 18 ms for 18
    assert dict(keeper.late_causes) == {"work up to blend": 1}
    assert keeper.now() == pytest.approx(100.095)


def test_a_late_sum_counts(clock: Clock) -> None:
    class Slow(Delivered):
        def wait(self) -> Arrival:
            clock.sleep(0.04)
            return super().wait()

    keeper = PaddedKeeper(price)
    origin = keeper.begin()
    keeper.wait(Slow(origin + 0.01), "all")
    assert dict(keeper.late_causes) == {"sum of all": 1}


def test_nominal_time_reads_no_clock() -> None:
    def run() -> list:
        keeper = NominalKeeper(price)
        assert keeper.begin() == 0.0
        with keeper.phase(Phase.PROJECT, rows=3):
            time.sleep(0.001)
        keeper.wait(Delivered(0.5), "all")
        with keeper.phase(Phase.BLEND):
            pass
        return [(e.name, e.start, e.end) for e in keeper.entries] + [keeper.now()]

    assert run() == run()
    assert run()[-1] == pytest.approx(0.510)


def test_the_wall_clock_keeper_records_what_happened() -> None:
    keeper = Keeper()
    keeper.begin()
    with keeper.phase(Phase.LOSS, pixels=3) as work:
        time.sleep(0.01)
        work.fragments = 9
    keeper.wait(Immediate(), "all")
    phase, wait, collective = keeper.entries
    assert phase.end - phase.start >= 0.01
    assert (phase.work.pixels, phase.work.fragments) == (3, 9)
    assert (wait.kind, collective.nbytes) == ("wait", 8)
    assert keeper.points == [1]
    assert keeper.join() <= time.monotonic()
