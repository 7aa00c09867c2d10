"""The gate's window: barrier training to the bit, a gate that refuses what it must, and a capture that breaks it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.falsifier import measure, summary
from benchmarks.gate_window import Training, all_evidence, look_at_window, passing, row_norms, smallest
from harness.config import load
from harness.run.workload import Workload, load_workload
from odin.arms import ARMS
from odin.keeper import Keeper
from odin.runtime import Runtime
from tests.odin.threads import run_ranks

LIMIT = 0.05  # of the audit (D§6)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ODIN_CACHE", str(folder))
        yield folder


def workload(scene: str, *words: str) -> Workload:
    return load_workload(load([f"scene={scene}", "densify=false", *words]))


def small(scene: str) -> pd.DataFrame:
    # Training stops after the last window; 300 steps set how slowly the learning rate of positions decays.
    return measure(workload(scene, "steps=300"), after=(10, 30), windows=3)


@pytest.fixture(scope="module")
def falsifier() -> pd.DataFrame:
    return small("falsifier?points=5000")


def test_training_is_that_of_the_barrier() -> None:
    work = workload("rooms?views=16&width=48&height=36&points=300", "steps=24", "test_every=0", "sh_at=[8]")
    plan = work.plan(ARMS["barrier-planned"])

    def main(transport: object) -> Runtime:
        runtime = Runtime(work.recipe(), plan, ARMS["barrier-planned"], transport, Keeper())
        runtime.run()
        return runtime

    training = Training(work.recipe(), plan)
    for step in range(plan.steps):
        training.publish(step, training.gradients(step))
        training.restructure(step)
    runtimes, _ = run_ranks(2, main)
    assert training.recipe.table.digest() == runtimes[0].recipe.table.digest()


def test_looking_at_windows_changes_nothing() -> None:
    work = workload("rooms?views=16&width=48&height=36&points=300", "steps=6", "test_every=0", "sh_at=[]")
    plan = work.plan(ARMS["barrier-planned"])
    looking, plain = Training(work.recipe(), plan), Training(work.recipe(), plan)
    for step in range(plan.steps - 1):
        look_at_window(looking, step, looking.gradients(step))
        plain.publish(step, plain.gradients(step))
    assert looking.recipe.table.digest() == plain.recipe.table.digest()
    assert np.array_equal(looking.recipe.statistics.local, plain.recipe.statistics.local)
    np.testing.assert_array_equal(looking.history, plain.history)


def test_the_gate_refuses_large_norms_and_missing_evidence() -> None:
    norms = np.array([1.0, 10.0, np.nan, 0.0, 100.0])
    everything = np.ones(5, bool)
    # Mean of the four that are known: 27.75.
    assert passing(norms, everything, 0.2).tolist() == [True, False, False, True, False]
    assert passing(norms, everything & (norms < 50), 0.2).tolist() == [False, False, False, True, False]
    assert not passing(np.full(5, np.nan), everything).any()
    assert not passing(norms, ~everything).any()


def test_the_largest_norms_become_urgent_first() -> None:
    norms = np.array([3.0, 1.0, 2.0, 0.5, 1.0])
    mask = np.array([True, True, True, False, True])
    assert smallest(mask, norms, 2).tolist() == [False, True, False, False, True]
    assert smallest(mask, norms, 9).tolist() == mask.tolist()
    assert not smallest(mask, norms, 0).any()


def test_the_runtimes_gate_delays_no_row_without_evidence_on_the_rank() -> None:
    work = workload("rooms?views=16&width=48&height=36&points=300", "steps=6", "test_every=0", "sh_at=[]")
    training = Training(work.recipe(), work.plan(ARMS["barrier-planned"]))
    training.publish(0, training.gradients(0))
    gradients, written = training.gradients(1), training.reads(1)
    found = {e.name: e for e in all_evidence(training, gradients, training.history, written)}
    own = [row_norms(gradient) for gradient in gradients]
    assert any((mask & (norms == 0)).any() for mask, norms in zip(found["local"].delayed, own, strict=True))
    assert not any((mask & (norms == 0)).any() for mask, norms in zip(found["runtime"].delayed, own, strict=True))
    assert any(mask.any() for mask in found["runtime"].delayed)


@pytest.mark.parametrize("evidence", ["reduced", "local"])
def test_the_falsifier_breaks_the_gate(falsifier: pd.DataFrame, evidence: str) -> None:
    windows = falsifier[falsifier["evidence"] == evidence]
    assert len(windows) == 6
    assert windows["rho"].median() <= 0.2, "the test of the delayed-scope ratio would stop it"
    assert windows["energy"].median() > 0.5, "the passing rows do not dominate"
    assert windows.groupby("after")[["stale", "capped"]].median().min(axis=None) > LIMIT
    assert windows["predicted"].max() < 0.6 * LIMIT


def test_an_ordinary_capture_does_not_break_it() -> None:
    windows = small("rooms?views=32&width=80&height=60&points=4000")
    assert windows["stale"].max() < LIMIT
    assert windows["predicted"].max() < LIMIT / 2


def test_the_summary_has_a_row_per_evidence_and_step_count(falsifier: pd.DataFrame) -> None:
    table = summary(falsifier)
    assert table[["evidence", "after"]].drop_duplicates().shape[0] == len(table) == 8
    assert set(table["windows"]) == {3}
