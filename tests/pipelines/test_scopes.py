"""Inflated scopes hold every row that is drawn two steps later, whatever gradients do (D§6 Scopes)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as search
from hypothesis import strategies as st
from numpy.typing import NDArray

from odin.arms import arm
from odin.inflation import Inflation
from odin.keeper import Keeper
from odin.runtime import Runtime
from pipelines.columns import COLOUR, OPACITY, ROTATION, SCALE, XYZ
from pipelines.reference.threedgs import GaussianSplatting
from tests.odin.threads import run_ranks
from tests.pipelines.adversary import VIEWS, Adversary, capture, faster
from tests.pipelines.watched import RENDERER, UNIT, WatchedGated, WatchedUrgent, make_plan, run

EVENTS = {"densify_at": (30, 80, 130), "reset_at": (60,), "sh_at": (20, 45, 100)}


@pytest.mark.parametrize("optimizer", ["dense", "selective"])
@pytest.mark.parametrize("factor", [1, 20, 200])
def test_no_row_is_missed_and_without_inflation_rows_are(factor: int, optimizer: str) -> None:
    account, runtime = run(200, faster(factor, optimizer=optimizer, **EVENTS), seed=1)
    assert account.steps == 200
    assert account.missed == 0
    assert account.plain > {1: 20, 20: 500, 200: 5000}[factor]
    assert account.one > 0, "inflation for one update would have done"
    # The adversary is one: some centre moves as far as the bound allows, and none further.
    assert 0.999 < account.attained <= 1.0
    assert account.drawn <= account.scope
    assert runtime.version == 7
    assert len(runtime.recipe.table) > 50


@search(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    factor=st.sampled_from([1, 5, 20, 200]),
    fling=st.sampled_from([1, 10]),
    optimizer=st.sampled_from(["dense", "selective"]),
    events=st.lists(st.integers(1, 40), max_size=6),
    degree=st.integers(0, 3),
)
def test_no_row_is_missed_wherever_events_fall(seed, factor, fling, optimizer, events, degree) -> None:
    at = {"densify_at": tuple(events[::3]), "reset_at": tuple(events[1::3]), "sh_at": tuple(events[2::3])}
    settings = faster(factor, optimizer=optimizer, sh_degree=degree, **at)
    account, _ = run(40, replace(settings, position_lr_init=fling * settings.position_lr_init), seed=seed)
    assert account.steps == 40
    assert account.missed == 0


class Turncoat(Adversary):
    """Rows run away for two updates and come back with the third: no way from a predicted value is longer."""

    def _wish(self, rows: NDArray[np.int32]) -> NDArray[np.float64]:
        wish = super()._wish(rows)
        if self._step < 2:
            wish[:, XYZ] *= -1.0
            wish[:, SCALE] *= -1.0
        return wish


@pytest.mark.parametrize("reads", ["stale", "predicted"])
def test_rows_that_are_read_late_are_in_scope_as_well(reads: str) -> None:
    quiet = faster(200, densify_at=(), reset_at=(), sh_at=())
    name = f"throughput:rho=off:tau=1:reads={reads}"
    delayed = 0
    for seed in range(20):
        account, runtime = run(6, quiet, seed, policy=WatchedGated, name=name, adversary=Turncoat)
        delayed += sum(window.delayed_rows for window in runtime.publication.windows)
        assert account.missed == 0
    assert delayed > 5000


def test_scopes_do_not_depend_on_colours() -> None:
    """Nor on the SH degree: the same run with 0 to 3 degrees takes the same scopes."""
    runs = [run(60, faster(20, sh_degree=degree, sh_at=(10, 20, 30)), seed=3) for degree in range(4)]
    assert [runtime.recipe.degree for _, runtime in runs] == [0, 1, 2, 3]
    assert len({account.digest for account, _ in runs}) == 1
    recipe = runs[3][1].recipe
    none = Inflation.none(len(recipe.table))
    before = recipe.scope(range(VIEWS), none)
    for columns in (COLOUR, ROTATION, OPACITY):
        recipe.table.parameters[:, columns] = 3.0
    assert np.array_equal(recipe.scope(range(VIEWS), none), before)


def test_scopes_hold_in_real_training_on_two_ranks() -> None:
    """Gradients of photos of noise, at 20 times the learning rates."""
    rng = np.random.default_rng(5)
    photos = tuple(rng.integers(0, 256, (48, 64, 3)).astype(np.uint8) for _ in range(VIEWS))
    noise, settings = replace(capture(5), images=photos), faster(20, densify_at=(12,), reset_at=(20,), sh_at=(6,))

    def main(transport: object) -> Runtime:
        recipe = GaussianSplatting(noise, settings, RENDERER, steps=30, batch=2 * UNIT)
        plan = make_plan(30, recipe, 5, ranks=2)
        runtime = Runtime(recipe, plan, arm("quality"), transport, Keeper(), policy=WatchedUrgent)
        runtime.run()
        return runtime

    runs, _ = run_ranks(2, main)
    accounts = [runtime.publication.account for runtime in runs]
    assert accounts[0] == accounts[1]
    assert accounts[0].steps == 30
    assert accounts[0].missed == 0
    assert accounts[0].plain > 0
