"""Padding to a deadline: slack carries over between phases, lateness counts only where others can see it."""

from __future__ import annotations

import time

import pytest

from odin.comm.transport import Arrival
from odin.keeper import Keeper, PaddedKeeper, Work
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
    keeper.begin()
    with keeper.phase(Phase.PROJECT):
        time.sleep(0.015)
    with keeper.phase(Phase.BLEND):
        pass
    assert keeper.join() >= time.monotonic()
    assert not keeper.late_steps


def test_being_late_at_a_join_counts() -> None:
    keeper = PaddedKeeper(price)
    keeper.begin()
    keeper.step = 7
    with keeper.phase(Phase.PROJECT):
        time.sleep(0.03)
    keeper.join()
    assert keeper.late_steps == {7}
    assert keeper.entries[-1].name == Phase.OVERRUN.value


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
