"""The central claim: exact overlapped training equals waiting training in the same order, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.arms import ARMS
from odin.keeper import Keeper
from odin.plan import Plan
from odin.publication import Publication, UrgentPublication, WindowState
from odin.recipe import Event
from odin.runtime import Runtime, checkpoint_boundaries
from tests.odin.threads import run_ranks
from tests.odin.toy import ToyRecipe

VIEWS = 12


def make_plan(steps: int, ranks: int, unit: int, events: list[Event], seed: int) -> Plan:
    rng = np.random.default_rng(seed)
    units = np.stack([rng.permutation(VIEWS)[: ranks * unit] for _ in range(steps)])
    return Plan(
        units=units.reshape(steps, ranks, unit).astype(np.int32),
        region=np.full(steps, -1, np.int32),
        mixed=np.zeros(steps, bool),
        blocking=np.array([int(bool(e)) for e in events[:-1]], np.int32),
        train_count=VIEWS,
    )


def train(
    arm: str,
    plan: Plan,
    events: list[Event],
    *,
    lr: float = 0.02,
    policy: type[Publication] | None = None,
    rows: int = 60,
) -> tuple[list[Runtime], list[ToyRecipe], object]:
    def main(transport: object) -> tuple[Runtime, ToyRecipe]:
        recipe = ToyRecipe(rows, VIEWS, events, lr=lr)
        runtime = Runtime(recipe, plan, ARMS[arm], transport, Keeper(), policy=policy)
        runtime.run()
        return runtime, recipe

    results, exchange = run_ranks(plan.ranks, main)
    return [r[0] for r in results], [r[1] for r in results], exchange


def digest(recipes: list[ToyRecipe]) -> str:
    digests = {r.table.digest() for r in recipes}
    assert len(digests) == 1, "replicas differ"
    return digests.pop()


event = st.sampled_from([Event.NONE] * 6 + [Event.DENSIFY, Event.RESET, Event.SH_UP, Event.DENSIFY | Event.RESET])


@settings(max_examples=60, deadline=None)
@given(
    events=st.lists(event, min_size=3, max_size=14),
    ranks=st.integers(1, 3),
    unit=st.integers(1, 3),
    seed=st.integers(0, 99),
    lr=st.sampled_from([0.001, 0.02, 0.3]),
)
def test_overlap_equals_waiting_bit_for_bit(events, ranks, unit, seed, lr) -> None:
    plan = make_plan(len(events), ranks, unit, events, seed)
    _, waited, sizes_waited = train("barrier-planned", plan, events, lr=lr)
    overlapped_runs, overlapped, sizes = train("quality", plan, events, lr=lr)
    assert digest(waited) == digest(overlapped)
    assert overlapped[0].missed == 0
    totals = [sum(log) for log in sizes.log]
    assert totals == [sum(log) for log in sizes_waited.log], "arms send different bytes"
    assert len(set(map(tuple, sizes.log))) == 1, "ranks send different collectives"
    assert overlapped_runs[0].publication.payload_bytes == overlapped_runs[-1].publication.payload_bytes


def long_run() -> tuple[Plan, list[Event]]:
    events = [Event.NONE] * 40
    events[9] = events[24] = Event.DENSIFY
    events[15] = Event.RESET
    return make_plan(40, 2, 2, events, seed=3), events


def test_windows_open_and_are_accounted() -> None:
    plan, events = long_run()
    runs, _, _ = train("quality", plan, events)
    windows = runs[0].publication.windows
    assert len(windows) == plan.steps - 1
    assert sum(w.state is WindowState.PARTIAL for w in windows) > 25
    assert {w.reason for w in windows if w.state is WindowState.REJECTED} == {"structural"}


class WithoutHazardCheck(UrgentPublication):
    def conflicts(self, written: np.ndarray, read: np.ndarray) -> np.ndarray:
        return np.zeros_like(written)


class WithoutInflation(UrgentPublication):
    def _moves(self, step: int, t: int) -> tuple[float, float]:
        return 0.0, 0.0


@pytest.mark.parametrize(
    ("mutant", "lr"), [(WithoutHazardCheck, 0.02), (WithoutInflation, 0.3)], ids=["no-hazard-check", "no-inflation"]
)
def test_mutants_are_caught(mutant: type[Publication], lr: float) -> None:
    plan, events = long_run()
    _, waited, _ = train("barrier-planned", plan, events, lr=lr)
    _, mutated, _ = train("quality", plan, events, lr=lr, policy=mutant)
    assert digest(mutated) != digest(waited) or mutated[0].missed > 0


def test_checkpoint_boundaries_do_not_change_exact_arms() -> None:
    plan, events = long_run()
    _, waited, _ = train("barrier-planned", plan, events)
    _, flushed, _ = train("quality", checkpoint_boundaries(plan, 7), events)
    assert digest(waited) == digest(flushed)


def test_predicted_is_close_but_not_equal() -> None:
    events = [Event.NONE] * 30
    plan = make_plan(30, 2, 2, events, seed=3)
    _, waited, _ = train("barrier-planned", plan, events, lr=0.005)
    _, predicted, _ = train("predicted", plan, events, lr=0.005)
    start = ToyRecipe(60, VIEWS, events).table.parameters.numpy()
    a, b = waited[0].table.parameters.numpy(), predicted[0].table.parameters.numpy()
    assert digest(waited) != digest(predicted)
    assert np.linalg.norm(a - b) < 0.1 * np.linalg.norm(a - start)


def test_a_structural_event_on_an_open_window_is_refused() -> None:
    plan, events = long_run()
    open_plan = replace(plan, blocking=np.zeros_like(plan.blocking))
    with pytest.raises(AssertionError, match=r"not blocking|pending"):
        train("quality", open_plan, events)


