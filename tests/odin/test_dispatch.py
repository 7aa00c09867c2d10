"""DDS: who computes what, from replicated costs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.arms import Dispatch
from odin.dispatch import ROW_IN_FRAGMENTS, Dispatcher, ViewCosts, assign, view_cost
from odin.keeper import Keeper
from odin.plan import Plan
from tests.odin.test_exactness import digest, long_run, train
from tests.odin.threads import run_ranks


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float64)


ALIKE = floats(1.0, 1.0, 1.0)


def test_the_longest_unit_goes_to_the_rank_that_can_begin_first() -> None:
    # Ranks can begin at 5, 0 and 2; units cost 10, 30 and 20.
    assert assign(floats(10, 30, 20), floats(5, 0, 2), ALIKE).tolist() == [0, 1, 2]
    assert assign(floats(30, 10, 20), floats(5, 0, 2), ALIKE).tolist() == [1, 0, 2]
    assert assign(floats(20, 10, 30), floats(0, 7, 3), ALIKE).tolist() == [2, 1, 0]


def test_equal_ranks_that_are_ready_together_keep_their_units() -> None:
    for costs in (floats(1, 2, 3), floats(3, 2, 1), floats(0, 0, 0)):
        for ready in (floats(0, 0, 0), floats(4, 4, 4)):
            assert assign(costs, ready, ALIKE).tolist() == [0, 1, 2]
            assert assign(costs, ready, 2.0 * ALIKE).tolist() == [0, 1, 2]


def test_of_ranks_that_are_ready_together_the_fastest_has_the_longest() -> None:
    assert assign(floats(10, 30, 20), floats(0, 0, 0), floats(1.0, 0.5, 2.0)).tolist() == [2, 0, 1]


def test_ties_go_to_the_smaller_unit_and_rank() -> None:
    assert assign(floats(5, 5, 5), floats(3, 1, 1), ALIKE).tolist() == [2, 0, 1]
    assert assign(floats(5, 9, 5), floats(3, 1, 1), ALIKE).tolist() == [2, 1, 0]


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 5), st.integers(0, 10_000))
def test_no_assignment_ends_earlier(ranks: int, seed: int) -> None:
    """For ranks of one speed; unlike speeds are a heuristic."""
    rng = np.random.default_rng(seed)
    costs, ready = rng.integers(0, 20, ranks).astype(float), rng.integers(0, 20, ranks).astype(float)
    unit = assign(costs, ready, np.ones(ranks))
    assert sorted(unit) == list(range(ranks))
    best = min((ready + costs[list(order)]).max() for order in itertools.permutations(range(ranks)))
    assert np.all(ready == ready[0]) or (ready + costs[unit]).max() == best


def test_a_view_that_was_never_visited_counts_as_the_mean() -> None:
    costs, units = ViewCosts(6), np.array([[0, 1], [2, 3]])
    assert costs.unit_costs(units).tolist() == [0.0, 0.0]
    costs.learn(np.array([0, 3]), np.array([100, 300]))
    assert costs.unit_costs(units).tolist() == [100.0 + 200.0, 200.0 + 300.0]
    costs.learn(np.array([3, 2]), np.array([500, 0]))
    assert costs.unit_costs(units).tolist() == [100.0 + 300.0, 300.0 + 500.0]


def test_rows_cost_as_much_as_so_many_fragments() -> None:
    assert view_cost(Seen(1000, rows=3)) == 1000 + 3 * ROW_IN_FRAGMENTS


class Seen:
    """A frame that composited so many fragments of so many rows."""

    def __init__(self, fragments: int, rows: int = 0) -> None:
        self.fragments, self.rows = fragments, np.arange(rows)


def plan(steps: int) -> Plan:
    """Three ranks with a view each: 0, 1, 2 in even steps and 3, 4, 5 in odd ones."""
    units = np.array([[[0], [1], [2]], [[3], [4], [5]]] * steps, np.int32)[:steps]
    none, no = np.full(steps, -1, np.int32), np.zeros(steps, bool)
    return Plan(units=units, region=none, mixed=no, blocking=np.zeros(steps - 1, np.int32), train_count=6)


FRAGMENTS = [600, 100, 300, 10, 20, 60]  # of views 0…5


def dispatch(transport: object, speed: np.ndarray | None = None) -> list[int]:
    """Units of this rank in six steps, each learned when the next one is over."""
    dispatcher = Dispatcher(plan(6), transport, Keeper(), Dispatch.STATE, speed)
    units = []
    for step in range(6):
        units.append(dispatcher.unit(step))
        assert dispatcher.unit(step) == units[-1]
        view = int(plan(6).units[step, units[-1], 0])
        dispatcher.note(step, 0, Seen(FRAGMENTS[view]))
        dispatcher.send(step)
        if step:
            dispatcher.learn(step - 1)
    return units


def test_three_ranks_by_hand() -> None:
    """Costs of a view count from the step after the publication of its own.

    Steps 0, 1: nothing is known when step 0 begins, and step 0 is learned only at the end of step 1. All ranks are
    ready together, so each keeps its unit. Step 2 (views 0, 1, 2 at 600, 100, 300): still together, still their own;
    ranks are ready at 500, 0, 200 afterwards. Step 3 (views 3, 4, 5 at 10, 20, 60): the longest, unit 2, goes to
    rank 1, unit 1 to rank 2, unit 0 to rank 0; all wait for rank 0's step 2 at 500 and end at 510, 500, 500, so ranks
    are ready at 10, 0, 0. Step 4: unit 0 to rank 1, unit 2 to rank 2, unit 1 to rank 0, ready at 0, 490, 190 after
    110, 600, 300. Step 5: unit 2 to rank 0, unit 1 to rank 2, unit 0 to rank 1.
    """
    units, _ = run_ranks(3, dispatch)
    assert np.transpose(units).tolist() == [[0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 2, 1], [1, 0, 2], [2, 0, 1]]


def test_a_slow_rank_has_the_shortest_units() -> None:
    units, _ = run_ranks(3, lambda transport: dispatch(transport, floats(0.1, 1.0, 1.0)))
    assert [units[0][step] for step in (2, 3, 4, 5)] == [1, 0, 1, 0]
    assert all(sorted(step) == [0, 1, 2] for step in np.transpose(units).tolist())


def test_a_barrier_brings_ranks_together() -> None:
    def main(transport: object) -> list[int]:
        dispatcher = Dispatcher(plan(6), transport, Keeper(), Dispatch.STATE)
        dispatcher._costs.learn(np.arange(6), np.array(FRAGMENTS))
        first = [dispatcher.unit(0), dispatcher.unit(1)]
        dispatcher.reset()
        return [*first, dispatcher.unit(2)]

    units, _ = run_ranks(3, main)
    assert np.transpose(units).tolist() == [[0, 1, 2], [0, 2, 1], [0, 1, 2]]


@pytest.mark.parametrize("name", ["predicted", "hogwild"])
def test_who_computes_a_unit_changes_no_bit_on_two_ranks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assigned = []

    def watched(*args: np.ndarray) -> np.ndarray:
        assigned.append(assign(*args).tolist())
        return np.array(assigned[-1])

    monkeypatch.setattr("odin.dispatch.assign", watched)
    steps, events = long_run()
    _, dynamic, _ = train(f"{name}:audit=0:dispatch=state", steps, events)
    assert [1, 0] in assigned
    assert [0, 1] in assigned
    _, static, _ = train(f"{name}:audit=0:dispatch=static", steps, events)
    assert digest(dynamic) == digest(static)
