"""Windows that SAS keeps blocking are waited for in training and recorded with their reason; they change no bit."""

from __future__ import annotations

import numpy as np
import pytest

from harness.config import identity, load
from harness.measure.windows import windows_frame
from harness.run.together import retime, train
from harness.run.windows import full_graph, live_bytes
from harness.run.workload import Workload, load_workload
from odin.arms import arm
from odin.comm.link import Link
from odin.errors import InputError
from odin.keeper import NominalKeeper
from odin.plan import Blocking
from odin.planner.sas import window_couplings
from odin.publication import WindowState
from odin.replay import Trajectory

TINY = "rooms?views=24&width=64&height=48&points=600"
WORDS = [f"scene={TINY}", "ranks=2", "steps=14", "densify_at=[6]", "sh_at=[3]", "test_every=0"]
LINK = Link(name="test", beta=2e8)


@pytest.fixture(scope="module")
def plain() -> Workload:
    return load_workload(load(WORDS))


@pytest.fixture(scope="module")
def limited(plain: Workload) -> Workload:
    """With a coupling limit that about half of the windows exceed."""
    plan = plain.plan(arm("quality"))
    limit = float(np.median(window_couplings(full_graph(plain.tracks, plain.frusta), plan)))
    return given(plain, "sas=paper", f"coupling_limit={limit}")


def given(workload: Workload, *words: str) -> Workload:
    return Workload(config=load([*WORDS, *words]), capture=workload.capture)


def keeper(_: object) -> NominalKeeper:
    return NominalKeeper(lambda name, work: 1e-4 + 1e-7 * work.rows)


def trained(workload: Workload, name: str) -> tuple[str, list[tuple[WindowState, str]], list[Trajectory]]:
    """Final state of an arm, states and reasons of its windows, and the ranks' trajectories."""
    executed, trajectories = train(workload, arm(name), LINK, keeper, record=name == "quality")
    windows = [(w.state, w.reason) for w in executed[0].windows]
    return executed[0].recipe.table.digest(), windows, trajectories


def test_by_default_only_structural_windows_block(plain: Workload) -> None:
    for name in ("quality", "barrier"):
        plan = plain.plan(arm(name))
        assert plan.digest() == plain.plan_for(arm(name), plain.settings, 14).digest()
        assert set(plan.blocking[plan.blocking != 0]) == {Blocking.STRUCTURAL}
    assert {"sas", "coupling_limit", "memory"}.isdisjoint(identity(plain.config)["study"])
    assert identity(given(plain, "memory=1GB").config)["study"]["memory"] == "1GB"


def test_strong_windows_are_waited_for_and_say_why(plain: Workload, limited: Workload) -> None:
    plan = limited.plan(arm("quality"))
    strong = (plan.blocking & Blocking.COUPLING) != 0
    assert strong.any() and not strong.all()
    state, windows, _ = trained(limited, "quality")
    for blocked, (found, reason) in zip(strong, windows, strict=True):
        assert ("coupling" in reason) == blocked
        assert found is WindowState.REJECTED or not blocked
    assert any(found is not WindowState.REJECTED for found, _ in windows)
    assert state == trained(limited, "barrier-planned")[0] == trained(plain, "quality")[0]


def test_a_budget_that_nothing_fits_closes_every_window(plain: Workload) -> None:
    plan = plain.plan(arm("quality"))
    live = live_bytes(plain.recipe().table, plan)
    assert not (given(plain, f"memory={live}").plan(arm("quality")).blocking & Blocking.MEMORY).any()
    tight = given(plain, f"memory={live - 1}")
    executed, _ = train(tight, arm("predicted"), LINK, keeper)
    frame = windows_frame(executed[0].windows)
    assert (frame["state"] == "rejected").all() and frame["reason"].str.contains("memory").all()
    # Nothing is read ahead of its publication any more, so that even an arm that waits for nothing is exact.
    assert executed[0].recipe.table.digest() == trained(plain, "barrier-planned")[0]


def test_without_sas_stays_the_control(limited: Workload) -> None:
    """It opens no window and trains the bits of waiting; the arm that it is compared with opens those that SAS left."""
    state, windows, _ = trained(limited, "without-SAS")
    assert all(found is WindowState.REJECTED for found, _ in windows)
    assert state == trained(limited, "barrier-planned")[0]
    assert any(found is not WindowState.REJECTED for found, _ in trained(limited, "throughput")[1])


def test_arms_of_one_plan_are_retimed_with_its_windows(limited: Workload) -> None:
    _, _, trajectories = trained(limited, "quality")
    for name in ("quality", "barrier-planned"):
        expected, _ = train(limited, arm(name), LINK, keeper)
        again = retime(limited, arm(name), LINK, keeper, trajectories)
        for a, b in zip(expected, again, strict=True):
            assert [(e.name, e.start, e.end, e.nbytes) for e in a.entries] == [
                (e.name, e.start, e.end, e.nbytes) for e in b.entries
            ]
            assert [(w.state, w.reason) for w in a.windows] == [(w.state, w.reason) for w in b.windows]


def test_a_shard_has_no_memory_budget() -> None:
    with pytest.raises(InputError, match="memory=none with pipeline=grendel"):
        load([*WORDS, "pipeline=grendel", "arms=barrier", "memory=1GB"])
