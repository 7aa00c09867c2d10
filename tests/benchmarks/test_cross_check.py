"""The cross-check agrees with a recording of itself, and refuses a recording of another program."""

from __future__ import annotations

import csv
from collections import deque
from pathlib import Path

import pandas as pd
import pytest

from benchmarks import cross_check, replaying
from benchmarks.cross_check import REPLAYED
from harness.config import Cell, load
from harness.measure.profile import Profile
from harness.measure.timeline import read_timeline, write_steps, write_timeline
from harness.run.collect import measure, quality_of, rank_steps, rank_timeline, record
from harness.run.execute import render_views
from harness.run.together import train
from harness.run.warmup import Calibration, solve_link
from harness.run.workload import Workload, load_workload
from harness.store.provenance import collect_provenance, now
from harness.store.schema import Result
from harness.store.store import STEPS, TIMELINE, CellStore
from odin.arms import Waits, arm
from odin.errors import InputError
from odin.keeper import NominalKeeper
from odin.phases import Phase

TINY = ["scene=rooms?views=24&width=64&height=48&points=600", "ranks=2", "steps=12", "densify_at=[6]"]
STRETCH = 2.0
COMPUTE = 0.017  # s: then more rows leave early on the faster link, and none on the slower one


def recorded(root: Path, *names: str, link: str = "exposed-295") -> None:
    """Cells that say they are padded; their phases take three times as long as the profile says."""
    words = [f"out={root}", f"arms={','.join(names)}", "mirrored=false", f"link={link}"]
    workload = load_workload(load([*TINY, *words]))
    prices = {phase.value: (1e-7, 1e-8, 1e-9, 1e-8, 1e-4) for phase in Phase}
    calibration = Calibration(
        profile=Profile(name="made up", source="test", coefficients=prices, samples={}, residual={}),
        stretch=STRETCH,
        link=solve_link(workload, COMPUTE),
        compute=COMPUTE,
        unit_seconds=1e-5,
        colour_window=1e-6,
    )
    (root / "profiles").mkdir(parents=True, exist_ok=True)
    (root / "profiles" / f"{calibration.name}.json").write_text(calibration.to_json())
    for name in names:
        _cell(CellStore(root), workload, name, calibration)


def _cell(store: CellStore, workload: Workload, name: str, calibration: Calibration) -> None:
    slow, started = calibration.profile.stretched(3.0 * STRETCH), now()
    executed, _ = train(
        workload, arm(name), calibration.link.stretched(STRETCH), lambda t: NominalKeeper(slow),
        budget=calibration.budget(2),
    )  # fmt: skip
    timeline = pd.concat([rank_timeline(e, r) for r, e in enumerate(executed)], ignore_index=True)
    steps = pd.concat([rank_steps(e, r) for r, e in enumerate(executed)], ignore_index=True)
    m = measure(
        workload, executed[0], timeline, steps, calibration, late_steps=0, initial=_quality(workload),
        renders=render_views(executed[0].recipe, workload),
    )  # fmt: skip
    cell = Cell(arm=name, repeat=0, config=workload.config)
    result = record(cell, workload, m, collect_provenance(started=started))
    write_timeline(timeline, store.path(result.cell_id) / TIMELINE)
    write_steps(steps, store.path(result.cell_id) / STEPS)
    store.write_result(result)


def _only(root: Path) -> tuple[CellStore, Result]:
    store = CellStore(root)
    (result,) = store.results()
    return store, result


def _quality(workload: Workload) -> object:
    return quality_of(render_views(workload.recipe(), workload), workload, with_ssim=True)


@pytest.mark.parametrize("steps", [12, 8])
def test_a_recording_is_replayed_to_the_last_digit(tmp_path: Path, steps: int) -> None:
    recorded(tmp_path, "quality")
    store = CellStore(tmp_path)
    (result,) = store.results()
    check = cross_check.check(store, result, steps, None)
    assert check.passed and check.median == pytest.approx(0, abs=1e-9)
    assert check.replayed_ms == pytest.approx(check.recorded_ms)
    assert check.modelled_ms < 0.9 * check.recorded_ms  # the model knows nothing of the slowness
    assert check.modelled_median > cross_check.TOLERANCE


def test_on_the_recorded_link_a_replay_is_the_cross_check(tmp_path: Path) -> None:
    recorded(tmp_path, "quality")
    store, result = _only(tmp_path)
    parts = replaying.replay(store, result, 8, None, replaying.solved_link("exposed-295"))
    check = cross_check.check(store, result, 8, None)
    assert 1e3 * parts.step == pytest.approx(check.replayed_ms, rel=1e-12)
    assert check.replayed_ms == pytest.approx(check.recorded_ms)


@pytest.mark.parametrize("name", ["barrier", "quality", "throughput:evidence=local", "predicted:audit=4"])
def test_a_replay_on_another_link_is_what_a_run_there_would_be(tmp_path: Path, name: str) -> None:
    """Also where steps are cut into other segments there."""
    recorded(tmp_path / "here", name)
    recorded(tmp_path / "there", name, link="exposed-229")
    (other, there), (store, here) = _only(tmp_path / "there"), _only(tmp_path / "here")
    assert (_segments(other, there) != _segments(store, here)) is (arm(name).waits in (Waits.URGENT, Waits.GATED))
    assert here.measurement is not None and there.measurement is not None
    replayed = replaying.replay(store, here, 100, None, replaying.solved_link("exposed-229"))
    wanted = there.measurement.breakdown
    assert replayed.step == pytest.approx(wanted.step, rel=1e-9)
    assert replayed.transfer == pytest.approx(wanted.transfer, rel=1e-6, abs=1e-9)
    assert replayed.skew == pytest.approx(wanted.skew, rel=1e-6, abs=1e-9)
    assert replayed.step < here.measurement.breakdown.step or name.startswith("predicted")


def _segments(store: CellStore, result: Result) -> list[tuple[str, int]]:
    """Name and bytes of every collective of rank 0."""
    timeline = read_timeline(store.path(result.cell_id) / TIMELINE)
    sent = timeline[(timeline["kind"] == "collective") & (timeline["rank"] == 0)]
    return list(zip(sent["name"], sent["bytes"], strict=True))


def test_arms_are_replayed_on_another_link_beside_its_barrier(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path, "barrier", "quality-random")
    out = tmp_path / "x.csv"
    words = [str(tmp_path), "--link", "exposed-323", "--steps", "8", "--out", str(out)]
    assert cross_check.main([*words, "--arms", "barrier,quality-random"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{REPLAYED} on exposed-323, 8 steps; recorded (padded): ") and "error" not in printed
    base, arm_row = csv.DictReader(out.read_text().splitlines())
    assert [base["label"], arm_row["label"]] == [REPLAYED, REPLAYED]
    step, speedup = float(arm_row["step_seconds"]), float(arm_row["speedup"])
    assert speedup == pytest.approx(float(base["step_seconds"]) / step) and 1 < speedup < float(base["limit"])
    assert 0 < float(base["exposed_share"]) < 0.5 and 0 < float(arm_row["hidden_transfer_share"]) <= 1
    assert (base["link"], base["steps"], arm_row["modelled_speedup"]) == ("exposed-323", "8", "–: no model")
    assert cross_check.main([*words, "--arms", "quality-random"]) == 2
    assert "against barrier" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["none", "cluster", "exposed-230"])
def test_a_link_without_an_exposed_share_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="Links that are: exposed-229, exposed-295, exposed-323"):
        replaying.solved_link(name)


def test_units_assigned_by_measured_times_are_not_replayed_elsewhere(tmp_path: Path) -> None:
    recorded(tmp_path, "predicted:dispatch=time")
    store, result = _only(tmp_path)
    with pytest.raises(InputError, match="by measured times"):
        replaying.replay(store, result, 8, None, replaying.solved_link("exposed-229"))


def test_a_rank_is_late_as_recorded_even_where_it_has_nothing_to_wait_for() -> None:
    keeper = replaying.ReplayingKeeper(deque([(0, "overrun", 0.5), (0, "project", 1.0)]), 1)
    with keeper.phase(Phase.PROJECT):
        pass
    assert [(e.name, e.start, e.end) for e in keeper.entries] == [("overrun", 0.0, 0.5), ("project", 0.5, 1.5)]


def test_a_recording_of_another_program_is_refused() -> None:
    keeper = replaying.ReplayingKeeper(deque([(0, "bin", 1.0)]), 1)
    with pytest.raises(InputError, match="bin of step 0 where this code does project"), keeper.phase(Phase.PROJECT):
        pass


def test_a_folder_without_padded_cells_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    CellStore(tmp_path)
    assert cross_check.main([str(tmp_path), "--out", str(tmp_path / "x.csv")]) == 2
    assert "padded" in capsys.readouterr().err


def test_what_is_done_between_phases_counts_in_a_shaped_record() -> None:
    """To the next phase, or before a wait to the one before; what the link does is nobody's time."""
    rows = [
        (0, "phase", "cull", 1.0, 2.0),
        (0, "phase", "project", 2.5, 3.0),
        (0, "collective", "geometry", 3.0, 9.0),
        (0, "wait", "geometry", 3.25, 9.0),
        (0, "phase", "update", 9.5, 10.0),
    ]
    frame = pd.DataFrame([dict(zip(("step", "kind", "name", "start", "end"), row, strict=True)) for row in rows])
    timeline = pd.concat([frame.assign(rank=1), frame.assign(rank=0, end=frame["end"] + 1)], ignore_index=True)
    shaped = replaying.recorded_phases(timeline, 1, gaps=True)
    assert list(shaped) == [(0, "cull", 1.0), (0, "project", 1.25), (0, "update", 1.0)]
    padded = replaying.recorded_phases(timeline, 1, gaps=False)
    assert list(padded) == [(0, "cull", 1.0), (0, "project", 0.5), (0, "update", 0.5)]


def test_a_shaped_cell_needs_the_only_profile_of_its_folder(tmp_path: Path) -> None:
    recorded(tmp_path, "quality")
    store = CellStore(tmp_path)
    (result,) = store.results()
    assert result.measurement is not None
    shaped = result.model_copy(
        update={"measurement": result.measurement.model_copy(update={"padding_scale": None, "profile": "none"})}
    )
    assert cross_check.check(store, shaped, 8, None).replayed_ms > 0
    (tmp_path / "profiles" / "another.json").write_text("{}")
    with pytest.raises(InputError, match="holds 2 profiles that may be this cell's"):
        cross_check.check(store, shaped, 8, None)
