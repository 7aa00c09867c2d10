"""The virtual engine: computed time, real numerics, many ranks in one process; re-timing of bit-identical arms."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli import main
from harness.config import load
from harness.run.execute import execute
from harness.run.together import run_threads
from harness.run.workload import Workload, load_workload
from harness.store.store import TIMELINE, CellStore
from odin.arms import arm
from odin.comm.link import Link
from odin.keeper import Entry, NominalKeeper, Work
from odin.replay import RecordingRecipe, ReplayLedger, ReplayRecipe, Trajectory
from odin.runtime import Runtime

TINY = "rooms?views=24&width=64&height=48&points=600"
WORDS = [f"scene={TINY}", "engine=virtual", "ranks=4", "views_per_unit=2", "steps=14", "densify_at=[6]", "sh_at=[3]"]
LINK = Link(name="test", beta=2e8)


@pytest.fixture(scope="module")
def workload() -> Workload:
    return load_workload(load([*WORDS, "test_every=0"]))


def price(phase: str, work: Work) -> float:
    return 1e-4 + 1e-7 * work.rows + 1e-8 * work.entries + 1e-9 * work.fragments + 1e-8 * work.pixels


def timeline(entries: list[Entry]) -> list[tuple]:
    return [(e.step, e.kind, e.name, e.category, e.start, e.end, repr(e.last_join), e.nbytes) for e in entries]


def run(workload: Workload, name: str) -> tuple[list[list[tuple]], list[Trajectory], str]:
    """Timelines and recorded trajectories of all ranks, and the final state."""
    plan = workload.plan(arm(name))

    def rank(transport: object) -> tuple[list[tuple], Trajectory, str]:
        recipe, keeper = RecordingRecipe(workload.recipe(), plan), NominalKeeper(price)
        if name == "barrier-planned":
            done = execute(workload, arm(name), transport, keeper, recipe=recipe.inner, plan=plan)
            return timeline(done.entries), recipe.trajectory, done.recipe.table.digest()
        done = execute(workload, arm(name), transport, keeper, recipe=recipe, plan=plan)
        return timeline(done.entries), recipe.trajectory, recipe.inner.table.digest()

    ranks = run_threads(4, LINK, rank)
    assert len({digest for _, _, digest in ranks}) == 1
    return [entries for entries, _, _ in ranks], [trajectory for _, trajectory, _ in ranks], ranks[0][2]


def retime(workload: Workload, name: str, trajectories: list[Trajectory]) -> list[list[tuple]]:
    plan = workload.plan(arm(name))

    def rank(transport: object) -> list[tuple]:
        keeper = NominalKeeper(price)
        recipe = ReplayRecipe(workload.recipe(), plan, trajectories[transport.rank], keeper)
        runtime = Runtime(recipe, plan, arm(name), transport, keeper)
        runtime.publication.ledger = ReplayLedger()
        runtime.run()
        return timeline(keeper.entries)

    return run_threads(4, LINK, rank)


@pytest.mark.parametrize("name", ["quality", "quality:early=off", "quality:groups=off", "barrier-planned"])
def test_a_retimed_arm_has_the_timeline_of_the_arm_that_is_run(workload: Workload, name: str) -> None:
    _, trajectories, state = run(workload, "quality")
    expected, _, same = run(workload, name)
    assert same == state
    assert retime(workload, name, trajectories) == expected


def test_two_runs_have_equal_timelines(workload: Workload) -> None:
    assert run(workload, "quality")[0] == run(workload, "quality")[0]


@pytest.mark.xdist_group("process")
def test_a_study_on_the_virtual_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arms = "arms=barrier,barrier-planned,quality,throughput,predicted,hogwild"
    assert main(["reproduce", "headline", f"out={tmp_path}", *WORDS, arms, "mirrored=false"]) == 0
    printed = capsys.readouterr().out
    assert "virtual" in printed
    store = CellStore(tmp_path)
    results = list(store.results())
    assert {r.cell.label.value for r in results} == {"virtual"}
    assert all((store.path(r.cell_id) / TIMELINE).exists() for r in results)
    digests = {r.measurement.final_digest for r in results if r.cell.arm in ("barrier-planned", "quality")}
    assert len(digests) == 1
