"""The central claim: exact overlapped training equals waiting training in the same order, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.arms import arm
from odin.budget import Budget
from odin.keeper import Keeper
from odin.plan import Plan
from odin.publication import PredictedPublication, Publication, UrgentPublication, WindowState
from odin.publication.layout import REST, Classes
from odin.recipe import Event
from odin.runtime import Runtime, checkpoint_boundaries
from tests.odin.threads import run_ranks
from tests.odin.toy import ToyRecipe

VIEWS = 12


def make_plan(steps: int, ranks: int, unit: int, events: list[Event], seed: int, views: int = VIEWS) -> Plan:
    rng = np.random.default_rng(seed)
    units = np.stack([rng.permutation(views)[: ranks * unit] for _ in range(steps)])
    return Plan(
        units=units.reshape(steps, ranks, unit).astype(np.int32),
        region=np.full(steps, -1, np.int32),
        mixed=np.zeros(steps, bool),
        blocking=np.array([int(bool(e)) for e in events[:-1]], np.int32),
        train_count=views,
    )


def train(
    name: str,
    plan: Plan,
    events: list[Event],
    *,
    lr: float = 0.02,
    policy: type[Publication] | None = None,
    rows: int = 60,
    budget: Budget | None = None,
    selective: bool = False,
    adversarial: bool = False,
    views: int = VIEWS,
    hold: int = 0,
) -> tuple[list[Runtime], list[ToyRecipe], object]:
    def main(transport: object) -> tuple[Runtime, ToyRecipe]:
        recipe = ToyRecipe(rows, views, events, lr=lr, selective=selective, adversarial=adversarial, hold=hold)
        runtime = Runtime(recipe, plan, arm(name), transport, Keeper(), policy=policy, budget=budget)
        runtime.run()
        return runtime, recipe

    results, exchange = run_ranks(plan.ranks, main)
    return [r[0] for r in results], [r[1] for r in results], exchange


def digest(recipes: list[ToyRecipe]) -> str:
    digests = {r.table.digest() for r in recipes}
    assert len(digests) == 1, "replicas differ"
    return digests.pop()


SOME = settings().max_examples  # fewer where `python -m tests.mutants` asks for fewer

event = st.sampled_from([Event.NONE] * 6 + [Event.DENSIFY, Event.RESET, Event.SH_UP, Event.DENSIFY | Event.RESET])


def row_budget(early: int, lead: int) -> Budget:
    """A budget that lets so many rows leave early, whatever their size."""

    class Fixed(Budget):
        def early_rows(self, *sizes: object) -> int:
            return early

        def colour_rows(self, *sizes: object) -> int:
            return lead

    return Fixed()


switched = st.sampled_from(
    ["quality", "quality:groups=off", "quality:early=off", "quality:unit_order=off", "paper-quality",
     "quality:groups=off:early=off:unit_order=off", "paper-quality:groups=on:early=on"]
)  # fmt: skip
budgets = st.one_of(st.none(), st.builds(row_budget, st.integers(0, 60), st.integers(0, 60)))


@settings(max_examples=SOME, deadline=None)
@given(
    events=st.lists(event, min_size=3, max_size=14),
    ranks=st.integers(1, 3),
    unit=st.integers(1, 3),
    seed=st.integers(0, 99),
    lr=st.sampled_from([0.001, 0.02, 0.3]),
    name=switched,
    budget=budgets,
    selective=st.booleans(),
)
def test_overlap_equals_waiting_bit_for_bit(events, ranks, unit, seed, lr, name, budget, selective) -> None:
    plan = make_plan(len(events), ranks, unit, events, seed)
    _, waited, sizes_waited = train("barrier-planned", plan, events, lr=lr, selective=selective)
    overlapped_runs, overlapped, sizes = train(name, plan, events, lr=lr, budget=budget, selective=selective)
    assert digest(waited) == digest(overlapped)
    assert overlapped[0].missed == 0
    assert max(recipe.lag for recipe in overlapped) <= 1
    totals = [sum(log) for log in sizes.log]
    assert totals == [sum(log) for log in sizes_waited.log], "arms send different bytes"
    assert len(set(map(tuple, sizes.log))) == 1, "ranks send different collectives"
    assert overlapped_runs[0].publication.payload_bytes == overlapped_runs[-1].publication.payload_bytes


@settings(max_examples=SOME * 3 // 5, deadline=None)
@given(
    events=st.lists(event, min_size=3, max_size=14),
    ranks=st.integers(1, 3),
    unit=st.integers(1, 3),
    seed=st.integers(0, 99),
    name=switched,
    budget=budgets,
    hold=st.sampled_from([1, 2, 3, 5]),
)
def test_a_group_that_is_held_back_is_exact_as_well(events, ranks, unit, seed, name, budget, hold) -> None:
    """Gradients of the group are summed and applied every few steps; no arm may lose or misplace one."""
    plan = make_plan(len(events), ranks, unit, events, seed)
    _, waited, sizes_waited = train("barrier-planned", plan, events, hold=hold)
    _, overlapped, sizes = train(name, plan, events, budget=budget, hold=hold)
    assert digest(waited) == digest(overlapped)
    assert [sum(log) for log in sizes.log] == [sum(log) for log in sizes_waited.log]
    applied = [s for s, e in enumerate(events) if (s + 1) % hold == 0 and Event.DENSIFY not in e]
    assert waited[0].table.held.t == len(applied)


@pytest.mark.parametrize("name", ["predicted", "throughput:reads=predicted", "hogwild", "throughput:evidence=local"])
def test_inexact_arms_apply_every_gradient_of_a_held_group(name: str) -> None:
    """With gradients that do not depend on what is read, a late or corrected update ends where waiting does."""
    events = [Event.NONE] * 13
    plan = make_plan(13, 2, 2, events, seed=1)
    _, waited, _ = train("barrier-planned", plan, events, hold=4, lr=1e-6)
    _, late, _ = train(name, plan, events, hold=4, lr=1e-6)
    digest(late)
    a, b = waited[0].table, late[0].table
    assert a.held.t == b.held.t == 3
    for x, y in ((a.held.sums, b.held.sums), (a.m, b.m), (a.v, b.v)):
        assert np.allclose(x, y, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("selective", [False, True], ids=["dense", "selective"])
def test_adversarial_gradients_stay_within_their_scopes(selective: bool) -> None:
    plan, events = long_run()
    _, waited, _ = train("barrier-planned", plan, events, selective=selective, adversarial=True)
    _, overlapped, _ = train("quality", plan, events, selective=selective, adversarial=True)
    assert digest(waited) == digest(overlapped)
    assert overlapped[0].missed == 0


INEXACT = [
    "throughput", "throughput:rho=off", "throughput:tau=1", "throughput:reads=predicted", "throughput:evidence=local",
    "throughput:evidence=reduced", "throughput:evidence=local:rho=off:reads=predicted", "paper-literal",
    "paper-literal:tau=1", "predicted", "predicted:audit=3", "predicted:reads=stale", "hogwild", "without-DAS",
    "without-DDS", "without-SAS", "throughput:groups=off:dispatch=static", "predicted:dispatch=time", "hogwild:audit=2",
    "throughput:audit=2", "throughput:evidence=local:audit=2", "throughput:histograms=on",
    "throughput:evidence=local:audit=3", "throughput:evidence=reduced:audit=2", "paper-literal:early=on:audit=1",
]  # fmt: skip


@settings(max_examples=SOME * 3 // 5, deadline=None)
@given(
    events=st.lists(event, min_size=3, max_size=14),
    ranks=st.integers(1, 3),
    unit=st.integers(1, 3),
    seed=st.integers(0, 99),
    name=st.sampled_from(INEXACT),
    budget=budgets,
    selective=st.booleans(),
)
def test_inexact_arms_keep_replicas_equal_and_skip_one_update_at_most(
    events, ranks, unit, seed, name, budget, selective
) -> None:
    plan = make_plan(len(events), ranks, unit, events, seed)
    runs, recipes, sizes = train(name, plan, events, budget=budget, selective=selective)
    digest(recipes)
    assert max(recipe.lag for recipe in recipes) <= 1
    assert len(set(map(tuple, sizes.log))) == 1, "ranks send different collectives"
    for run in runs:
        run.publication.ledger.require_flushed()
        assert len(run.publication.windows) == plan.steps - 1


def long_run() -> tuple[Plan, list[Event]]:
    events = [Event.NONE] * 40
    events[9] = events[24] = Event.DENSIFY
    events[15] = Event.RESET
    return make_plan(40, 2, 2, events, seed=3), events


@pytest.mark.parametrize("unit", [14, 15, 20])
def test_units_of_many_views_are_exact_as_well(unit: int) -> None:
    """Ready times and needs of more than 14 views do not fit a byte together."""
    events = [Event.NONE] * 8
    plan = make_plan(8, 1, unit, events, seed=0, views=24)
    _, waited, _ = train("barrier-planned", plan, events, lr=0.1, views=24)
    _, overlapped, _ = train("quality", plan, events, lr=0.1, views=24)
    assert digest(waited) == digest(overlapped)


def test_windows_open_and_are_accounted() -> None:
    plan, events = long_run()
    runs, _, _ = train("quality", plan, events)
    windows = runs[0].publication.windows
    assert len(windows) == plan.steps - 1
    assert sum(w.state is WindowState.PARTIAL for w in windows) > 25
    assert {w.reason for w in windows if w.state is WindowState.REJECTED} == {"structural"}


class WithoutHazardCheck(UrgentPublication):
    """Nothing is taken for a conflict, so pending rows are read stale."""

    def classes(self, step: int, found: Classes) -> Classes:
        return Classes(last=found.last, need=np.full_like(found.need, REST))


class ColoursNotAwaited(UrgentPublication):
    """Views are blended without waiting for colours."""

    def before_blend(self, step: int, position: int) -> None:
        return None


class WithoutInflation(UrgentPublication):
    def _moves(self, step: int, t: int) -> tuple[float, float]:
        return 0.0, 0.0


class ThreeSlots(PredictedPublication):
    """A third slot, so that a step may be published two steps late."""

    def __init__(self, *args: object, **more: object) -> None:
        super().__init__(*args, **more)
        self.ledger.ring = 3

    def _finish(self, step: int) -> None:
        super()._finish(step - 1)
        if self.blocked(step + 1):
            super()._finish(step)


@pytest.mark.parametrize(
    ("mutant", "lr"),
    [(WithoutHazardCheck, 0.02), (ColoursNotAwaited, 0.02), (WithoutInflation, 0.3)],
    ids=["no-hazard-check", "colours-not-awaited", "no-inflation"],
)
def test_mutants_are_caught(mutant: type[Publication], lr: float) -> None:
    plan, events = long_run()
    _, waited, _ = train("barrier-planned", plan, events, lr=lr)
    _, mutated, _ = train("quality", plan, events, lr=lr, policy=mutant)
    assert digest(mutated) != digest(waited) or mutated[0].missed > 0


def test_a_third_slot_skips_two_updates() -> None:
    plan, events = long_run()
    _, two, _ = train("hogwild", plan, events)
    _, three, _ = train("hogwild", plan, events, policy=ThreeSlots)
    assert (two[0].lag, three[0].lag) == (1, 2)


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


class TwoPasses(PredictedPublication):
    """The predecessor's correction and the step's own prediction, one after the other."""

    close = Publication.close


@pytest.mark.parametrize("name", ["predicted", "predicted:audit=4"])
@pytest.mark.parametrize("how", [{}, {"hold": 3}, {"selective": True}], ids=["dense", "held", "selective"])
def test_one_pass_over_the_rows_has_the_bits_of_two(name: str, how: dict) -> None:
    """Through structural events, audits and the first step after each, where there is nothing to correct."""
    plan, events = long_run()
    _, together, _ = train(name, plan, events, **how)
    _, apart, _ = train(name, plan, events, policy=TwoPasses, **how)
    assert digest(together) == digest(apart)


@pytest.mark.parametrize("selective", [False, True], ids=["dense", "selective"])
def test_one_pass_is_taken_where_nothing_comes_between(selective: bool) -> None:
    plan, events = long_run()
    runs, *_ = train("predicted:audit=0", plan, events, selective=selective)
    names = [entry.name for entry in runs[0].keeper.entries]
    open_windows = sum(not blocked for blocked in plan.blocking)
    assert names.count("advance") > 0.5 * open_windows
    assert names.count("advance") + names.count("zero_step") == open_windows
    assert names.count("correct") == names.count("zero_step")  # the last and the first of a run of windows


def test_a_structural_event_on_an_open_window_is_refused() -> None:
    plan, events = long_run()
    open_plan = replace(plan, blocking=np.zeros_like(plan.blocking))
    with pytest.raises(AssertionError, match=r"not blocking|pending"):
        train("quality", open_plan, events)


def norms_waited_for(runs: list[Runtime]) -> int:
    return sum(entry.kind == "wait" and entry.name == "norms" for run in runs for entry in run.keeper.entries)


def test_where_nothing_may_be_delayed_no_norms_are_exchanged() -> None:
    """With τ = 0 the ratio leaves no row to delay: the run is that of `quality`, in what it waits for too."""
    plan, events = long_run()
    nothing, recipes, sizes = train("throughput:evidence=reduced:tau=0", plan, events)
    waited, exact, _ = train("quality", plan, events)
    assert norms_waited_for(nothing) == 0
    assert len(set(map(tuple, sizes.log))) == 1
    assert digest(recipes) == digest(exact)
    assert nothing[0].publication.windows == waited[0].publication.windows
    some, _, _ = train("throughput:evidence=reduced:tau=0.8", plan, events)
    windows = some[0].publication.windows
    late, asked = [w for w in windows if w.delayed_rows], norms_waited_for(some) // plan.ranks
    # Where norms were looked at, chunks up to the last failing one were waited for; the rest was read late.
    assert late and len(late) <= asked < len(windows)
    assert all(w.waited_rows + w.delayed_rows <= w.rows for w in windows)
