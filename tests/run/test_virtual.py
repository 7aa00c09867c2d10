"""The virtual engine: computed time, real numerics, many ranks in one process; re-timing of bit-identical arms."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.cli import main
from harness.config import load
from harness.measure.profile import Profile
from harness.run import virtual
from harness.run.collect import quality_of
from harness.run.execute import execute, render_views
from harness.run.failure import Whereabouts
from harness.run.spec import RunSpec
from harness.run.together import retime, run_threads, train
from harness.run.virtual import VirtualWorker
from harness.run.warmup import Calibration
from harness.run.workload import Workload, load_workload
from harness.store.schema import Result
from harness.store.store import MODEL, STEPS, TIMELINE, TRACE, WINDOWS, CellStore
from odin.arms import arm
from odin.comm.link import Link
from odin.keeper import Entry, NominalKeeper, Work
from odin.losses import StepRecord
from odin.phases import Phase
from odin.replay import RecordingRecipe, Trajectory

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


@pytest.fixture(scope="module")
def quality(workload: Workload) -> tuple[list[list[tuple]], list[Trajectory], str]:
    return run(workload, "quality")


@pytest.mark.parametrize("name", ["quality", "quality:early=off", "quality:groups=off", "barrier-planned"])
def test_a_retimed_arm_has_the_timeline_of_the_arm_that_is_run(workload: Workload, quality: tuple, name: str) -> None:
    _, trajectories, state = quality
    expected, _, same = run(workload, name)
    assert same == state
    retimed = retime(workload, arm(name), LINK, lambda t: NominalKeeper(price), trajectories)
    assert [timeline(e.entries) for e in retimed] == expected


SHARED = [
    "barrier",
    "quality",
    "predicted:audit=3",
    "throughput",
    "hogwild",
    "paper-literal",
    "throughput:histograms=on",
]


@pytest.mark.parametrize("name", SHARED)
def test_sharing_changes_nothing(workload: Workload, name: str) -> None:
    """One table for all ranks gives the bits and the timeline of a replica for each."""
    both = [train(workload, arm(name), LINK, lambda t: NominalKeeper(price), share=share)[0] for share in (True, False)]
    shared, apart = both
    assert {e.recipe.table.digest() for e in shared} == {apart[0].recipe.table.digest()}
    assert len({e.recipe.table.parameters.data_ptr() for e in shared}) == 1
    assert len({e.recipe.table.parameters.data_ptr() for e in apart}) == 4
    for one, other in zip(shared, apart, strict=True):
        assert timeline(one.entries) == timeline(other.entries)
        assert (one.windows, one.audits, one.payload) == (other.windows, other.audits, other.payload)
        assert [r.loss for r in one.records] == [r.loss for r in other.records]
        assert repr(one.delays) == repr(other.delays)


def test_ranks_that_decide_for_themselves_have_replicas(workload: Workload) -> None:
    name = "throughput:evidence=local"
    executed, _ = train(workload, arm(name), LINK, lambda t: NominalKeeper(price))
    assert len({e.recipe.table.parameters.data_ptr() for e in executed}) == 4


def records(tmp_path: Path, arms: list[str], *, retime: bool) -> dict[tuple[str, int], tuple[Result, Path]]:
    """Records of a mirrored sequence under made-up prices, by arm and repeat."""
    config = load([*WORDS, f"out={tmp_path}", f"arms={','.join(arms)}", "steps=12"])
    cells = tuple((name, 0) for name in arms) + tuple((name, 1) for name in reversed(arms))
    tmp_path.mkdir()
    worker = VirtualWorker(RunSpec(config=config, cells=cells, folder=tmp_path))
    worker.initial = quality_of(
        render_views(worker.workload.recipe(), worker.workload), worker.workload, with_ssim=True
    )
    prices = {phase.value: (1e-7, 1e-8, 1e-9, 1e-8, 1e-4) for phase in Phase}
    profile = Profile(name="made up", source="test", coefficients=prices, samples={}, residual={})
    calibration = Calibration(
        profile=profile, stretch=1.0, link=LINK, compute=1.0, unit_seconds=1e-5, colour_window=1e-6
    )
    worker.cells(calibration, retime=retime)
    return {(r.cell.arm, r.cell.repeat): (r, worker.store.path(r.cell_id)) for r in worker.store.results()}


def test_a_retimed_record_is_that_of_a_run(tmp_path: Path) -> None:
    arms = ["barrier-planned", "quality", "quality:early=off", "without-SAS", "predicted"]
    timed, run = (records(tmp_path / str(retime), arms, retime=retime) for retime in (True, False))
    assert timed.keys() == run.keys()
    for key, (result, folder) in timed.items():
        expected, run_folder = run[key]
        assert result.cell_id == expected.cell_id
        assert result.measurement and expected.measurement
        blank = {"retimed_from": None, "memory": None}
        assert result.measurement.model_copy(update=blank) == expected.measurement.model_copy(update=blank)
        for name in (TIMELINE, STEPS, TRACE, WINDOWS, *((MODEL,) if key[1] == 0 else ())):
            assert (folder / name).read_bytes() == (run_folder / name).read_bytes(), (key, name)
    trained = {key for key, (result, _) in timed.items() if result.measurement.retimed_from is None}
    assert trained == {("quality", 0), ("predicted", 0)}
    assert timed["barrier-planned", 0][0].measurement.retimed_from == timed["quality", 0][0].cell_id
    assert timed["barrier-planned", 1][0].measurement.retimed_from == timed["quality", 0][0].cell_id
    assert timed["predicted", 1][0].measurement.retimed_from == timed["predicted", 0][0].cell_id
    assert timed["quality", 0][0].measurement.memory.tables == 1


def test_two_runs_have_equal_timelines(workload: Workload, quality: tuple) -> None:
    assert run(workload, "quality")[0] == quality[0]


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


def test_a_slow_step_is_told_when_it_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor stops a run of which it hears nothing; five steps of 64 ranks can take longer than it waits."""
    told: list[int] = []
    monkeypatch.setattr(virtual, "tell", lambda **message: told.append(message["done"]))
    spec = RunSpec(config=load(["engine=virtual"]), cells=(("barrier", 0),), folder=tmp_path)
    Whereabouts(spec).create()
    teller, clock = virtual._Teller(spec, 0, steps=6), iter([10.0, 10.1, 10.2, 110.0, 110.1, 110.2])
    monkeypatch.setattr(virtual, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    for step in range(6):
        teller(StepRecord(step=step, start=0.0, end=1.0, structural=False, loss=0.5))
    assert told == [1, 4, 6]
