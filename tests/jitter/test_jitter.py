"""Re-timing under jitter: the program of a cell ends when the cell did, and when the runtime would have ended."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.config import load
from harness.jitter import Program, jitter_of, jittered, program_of
from harness.jitter.playing import factors
from harness.jitter.program import JOIN, PHASE, WAIT
from harness.jitter.record import DRAWS, SIGMA
from harness.run.execute import Executed
from harness.run.together import train
from harness.run.workload import Workload, load_workload
from odin.arms import arm
from odin.comm.link import Link
from odin.comm.virtual import VirtualTransport
from odin.keeper import Entry, NominalKeeper, Work
from odin.phases import Phase

TINY = "rooms?views=24&width=64&height=48&points=600"
WORDS = [f"scene={TINY}", "engine=virtual", "ranks=3", "views_per_unit=2", "steps=9", "densify_at=[6]", "sh_at=[3]"]
LINK = Link(name="test", beta=2e8, alpha=1e-5)
ARMS = ["barrier", "quality", "throughput", "throughput:evidence=local", "predicted:audit=3", "paper-literal"]


@pytest.fixture(scope="module")
def workload() -> Workload:
    return load_workload(load([*WORDS, "test_every=0"]))


@pytest.fixture(scope="module")
def shards() -> Workload:
    return load_workload(load([*WORDS, "test_every=0", "pipeline=grendel", "views_per_unit=1"]))


def price(phase: str, work: Work) -> float:
    return 1e-4 + 1e-7 * work.rows + 1e-8 * work.entries + 1e-9 * work.fragments + 1e-8 * work.pixels


class Varying(NominalKeeper):
    """A keeper in whose runtime phases vary as a draw says."""

    def __init__(self, transport: VirtualTransport, slowdown: float, draw: int | None) -> None:
        super().__init__(price, transport.pace(slowdown))
        self._rank, self._draw, self._seen = transport.rank, draw, Counter[tuple[int, str]]()

    def _close(self, phase: Phase, work: Work, start: float, end: float, cpu: float) -> None:
        self._seen[self.step, phase.value] += 1
        self._price = lambda name, done: price(name, done) * self._factor(name)
        super()._close(phase, work, start, end, cpu)

    def _factor(self, name: str) -> float:
        if self._draw is None:
            return 1.0
        return float(factors(key(self._rank, self.step, name, self._seen[self.step, name]), SIGMA, self._draw)[0])


def key(rank: int, step: int, name: str, time: int) -> np.ndarray:
    """As `program_of` gives a single phase that is the `time`-th of its name."""
    entries = [[] for _ in range(rank)] + [[phase_entry(step, name)] * time]
    made = program_of(entries, [[] for _ in entries], lambda name, work: 1.0)
    assert made is not None
    return made.key[-1:]


def phase_entry(step: int, name: str) -> Entry:
    return Entry(step=step, kind="phase", name=name, category="useful", start=0.0, end=1.0)


def trained(workload: Workload, name: str, slowdown: float, draw: int | None = None) -> list[Executed]:
    return train(workload, arm(name), LINK, lambda t: Varying(t, slowdown, draw))[0]


def wall(executed: list[Executed]) -> float:
    return max(e.entries[-1].end if e.entries[-1].kind != "collective" else e.entries[-2].end for e in executed)


def program(executed: list[Executed]) -> Program:
    made = program_of([e.entries for e in executed], [e.joins for e in executed], price)
    assert made is not None
    return made


@pytest.mark.parametrize("slowdown", [1.0, 1.3])
@pytest.mark.parametrize("name", ARMS)
def test_a_program_ends_with_its_cell_and_as_the_runtime_would(workload: Workload, name: str, slowdown: float) -> None:
    executed = trained(workload, name, slowdown)
    made = program(executed)
    assert jittered(made, slowdown, 0.0, 0) == pytest.approx(wall(executed), rel=1e-12)
    varied = trained(workload, name, slowdown, draw=5)
    assert jittered(made, slowdown, SIGMA, 5) == pytest.approx(wall(varied), rel=1e-12)
    assert wall(varied) != pytest.approx(wall(executed), rel=1e-4)


@pytest.mark.parametrize("name", ["barrier", "quality", "predicted"])
def test_shards_have_programs_too(shards: Workload, name: str) -> None:
    executed = trained(shards, name, 1.2)
    assert jittered(program(executed), 1.2, 0.0, 0) == pytest.approx(wall(executed), rel=1e-12)


def test_what_a_record_says(workload: Workload) -> None:
    executed = trained(workload, "quality", 1.0)
    entries, joins, how = [e.entries for e in executed], [e.joins for e in executed], {"price": price, "slowdown": 1.0}
    made = jitter_of(arm("quality"), entries, joins, steps=9, **how)
    assert made is not None and made.sigma == SIGMA and len(set(made.step_seconds)) == DRAWS
    assert all(0.9 < 9 * seconds / wall(executed) < 1.1 for seconds in made.step_seconds)
    assert jitter_of(arm("quality:dispatch=time"), entries, joins, steps=9, **how) is None
    stuck = [[0] * len(one) for one in joins[:-1]] + [[len(entries[-1])] * len(joins[-1])]
    assert jitter_of(arm("quality"), entries, stuck, steps=9, **how) is None
    assert program_of(entries, [one[:-1] for one in joins], price) is None


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 0.5), st.integers(0, 10_000))
def test_factors_are_a_function_of_work_and_draw(start: int, sigma: float, draw: int) -> None:
    keys = np.arange(start, start + 5000, dtype=np.uint64)
    one = factors(keys, sigma, draw)
    assert np.array_equal(one[1000:2000], factors(keys[1000:2000], sigma, draw))
    assert (one > 0).all() and not np.array_equal(one, factors(keys, sigma, draw + 1))
    assert one.mean() == pytest.approx(1.0, abs=5 * sigma / 70)
    assert np.log(one).std() == pytest.approx(sigma, rel=0.06)


def test_by_hand() -> None:
    """Two ranks of 1 and 3 s join one collective of 2 s; then 1 s beside it at half speed, and 1 s behind it."""
    items = [(PHASE, 1.0), (JOIN, 0.0), (PHASE, 1.0), (WAIT, 0.0), (PHASE, 3.0), (JOIN, 0.0), (PHASE, 1.0), (WAIT, 0.0)]
    made = Program(
        kind=np.array([kind for kind, _ in items], np.int8),
        value=np.array([value for _, value in items]),
        key=np.zeros(8, np.uint64),
        first=np.array([0, 4, 8]),
        transfer=np.array([2.0]),
    )
    assert jittered(made, 1.0, 0.0, 0) == 5.0
    assert jittered(made, 2.0, 0.0, 0) == 5.0
    assert jittered(made, 3.0, 0.0, 0) == pytest.approx(3.0 + 2.0 + (1.0 - 2.0 / 3.0))
    waits_for_itself = made.kind.copy()
    waits_for_itself[1], waits_for_itself[3] = WAIT, JOIN
    stuck = Program(kind=waits_for_itself, value=made.value, key=made.key, first=made.first, transfer=made.transfer)
    waits_for_itself[5], waits_for_itself[7] = WAIT, JOIN
    assert math.isnan(jittered(stuck, 1.0, 0.0, 0))
