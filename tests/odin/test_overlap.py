"""Compute that runs during a transfer takes longer (`overlap_slowdown`): the clock against a plain simulation."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.run.together import run_threads
from odin.comm.link import Link
from odin.comm.virtual import VirtualTransport, stretch_over
from odin.keeper import NominalKeeper, Work
from odin.phases import Phase

BYTES = 400
TICK = 1e-3  # seconds


def run(programs: list[list], transfer: int, slowdown: float) -> list[list[tuple[float, float]]]:
    """Phases of every rank by the engine. A program's items: ticks of compute, "join" or "wait"."""
    ranks = len(programs)
    link = Link(name="test", beta=2 * (ranks - 1) / ranks * BYTES / (transfer * TICK)) if ranks > 1 else Link(name="x")

    def rank(transport: VirtualTransport) -> list[tuple[float, float]]:
        keeper = NominalKeeper(lambda name, work: work.rows * TICK, transport.pace(slowdown))
        keeper.begin()
        handles = []
        for item in programs[transport.rank]:
            if item == "join":
                handles.append(transport.all_reduce(torch.ones(BYTES // 4), keeper.join()))
            elif item == "wait":
                keeper.wait(handles.pop(0), "all")
            else:
                with keeper.phase(Phase.BLEND, rows=item):
                    pass
        return [(e.start, e.end) for e in keeper.entries if e.kind == "phase"]

    return run_threads(ranks, link, rank)


@dataclass
class Rank:
    program: list
    joined: int = 0
    waited: int = 0
    left: float = -1.0  # of the phase that runs; below 0: none does
    began: float = 0.0
    phases: list[tuple[float, float]] = field(default_factory=list)

    def settle(self, now: float, arrived: int) -> None:
        """Do what takes no time, up to the next phase that does."""
        while self.program and self.left < 0:
            item = self.program[0]
            if item == "wait" and self.waited == arrived:
                return
            if item == "join":
                self.joined += 1
            elif item == "wait":
                self.waited += 1
            elif item == 0:
                self.phases.append((now, now))
            else:
                self.left, self.began = item * TICK, now
                return
            self.program.pop(0)


def simulate(programs: list[list], transfer: int, slowdown: float) -> list[list[tuple[float, float]]]:
    """The same from event to event, without any idea of what comes: the rate of all ranks is what the link does now."""
    ranks = [Rank(list(p)) for p in programs]
    now, arrived, started, busy = 0.0, 0, 0, 0.0
    while True:
        for r in ranks:
            r.settle(now, arrived)
        if busy == 0 and started < min(r.joined for r in ranks):
            started, busy = started + 1, transfer * TICK
        rate = 1 / slowdown if busy else 1.0
        running = [r for r in ranks if r.left >= 0]
        if not running and not busy:
            assert not any(r.program for r in ranks)
            return [r.phases for r in ranks]
        lapse = min([r.left / rate for r in running] + ([busy] if busy else []))
        now += lapse
        for r in running:
            r.left -= lapse * rate
            if r.left <= 1e-12:
                r.phases.append((r.began, now))
                r.program.pop(0)
                r.left = -1.0
        if busy:
            busy = 0.0 if busy - lapse <= 1e-12 else busy - lapse
            arrived += busy == 0


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[list], int, float]:
    """Equal joins and waits on all ranks, in order, with compute of their own between."""
    joins = draw(st.integers(0, 4))
    ops: list = []
    pending = 0
    for _ in range(joins):
        ops.append("join")
        pending += 1
        for _ in range(draw(st.integers(0, pending))):
            ops.append("wait")
            pending -= 1
    ops += ["wait"] * pending
    lengths = st.lists(st.integers(0, 6), min_size=len(ops) + 1, max_size=len(ops) + 1)
    several = [draw(lengths) for _ in range(draw(st.integers(2, 3)))]
    return (
        [[x for pair in zip(own, [*ops, 0], strict=True) for x in pair] for own in several],
        draw(st.integers(1, 6)),
        draw(st.sampled_from([1.0, 1.05, 1.1, 2.0])),
    )


@settings(max_examples=60, deadline=None)
@given(programs())
def test_the_clock_is_that_of_a_plain_simulation(case: tuple[list[list], int, float]) -> None:
    ranks, transfer, slowdown = case
    expected = simulate(ranks, transfer, slowdown)
    for mine, theirs in zip(run(ranks, transfer, slowdown), expected, strict=True):
        assert [t for pair in mine for t in pair] == pytest.approx([t for pair in theirs for t in pair], abs=1e-9)


def test_compute_is_stretched_only_inside_transfers() -> None:
    busy = [(1.0, 2.0), (4.0, 6.0)]
    assert stretch_over(busy, 0, 0.0, 1.0, 2.0) == 1.0
    assert stretch_over(busy, 0, 0.0, 1.25, 2.0) == 1.5  # 1 before, 0.25 at half speed
    assert stretch_over(busy, 0, 0.0, 1.5, 2.0) == 2.0
    assert stretch_over(busy, 0, 1.5, 2.0, 2.0) == 3.75  # 0.25 in the first, 1.75 after it
    assert stretch_over(busy, 1, 5.0, 3.0, 2.0) == 8.5
    assert stretch_over([], 0, 1.0, 2.0, 2.0) == 3.0


def test_without_slowdown_the_clock_needs_no_look_at_the_link() -> None:
    assert run_threads(2, Link(name="x"), lambda t: t.pace(1.0) is None) == [True, True]
    keeper = NominalKeeper(lambda name, work: 2.0, None)
    with keeper.phase(Phase.LOSS):
        pass
    assert (keeper.now(), keeper.entries[0].work) == (2.0, Work())
