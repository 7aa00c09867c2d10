"""The cross-check agrees with a recording of itself, and refuses a recording of another program."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pandas as pd
import pytest

from benchmarks import cross_check
from harness.config import Cell, load
from harness.measure.profile import Profile
from harness.measure.timeline import write_steps, write_timeline
from harness.run.collect import measure, quality_of, rank_steps, rank_timeline, record
from harness.run.execute import render_views
from harness.run.together import train
from harness.run.warmup import Calibration
from harness.run.workload import Workload, load_workload
from harness.store.provenance import collect_provenance, now
from harness.store.store import STEPS, TIMELINE, CellStore
from odin.arms import arm
from odin.comm.link import Link
from odin.errors import InputError
from odin.keeper import NominalKeeper
from odin.phases import Phase

TINY = ["scene=rooms?views=24&width=64&height=48&points=600", "ranks=2", "steps=12", "densify_at=[6]"]
STRETCH = 2.0


def recorded(root: Path, name: str) -> None:
    """A cell that says it is padded; its phases take three times as long as the profile says."""
    workload = load_workload(load([*TINY, f"out={root}", f"arms={name}", "mirrored=false"]))
    prices = {phase.value: (1e-7, 1e-8, 1e-9, 1e-8, 1e-4) for phase in Phase}
    profile = Profile(name="made up", source="test", coefficients=prices, samples={}, residual={})
    link = Link(name="exposed-295", beta=2e7)
    calibration = Calibration(profile=profile, stretch=STRETCH, link=link, compute=1.0, unit_seconds=1e-5)
    store = CellStore(root)
    (root / "profiles").mkdir(exist_ok=True)
    (root / "profiles" / f"{calibration.name}.json").write_text(calibration.to_json())
    slow = profile.stretched(3.0 * STRETCH)
    executed, _ = train(
        workload, arm(name), link.stretched(STRETCH), lambda t: NominalKeeper(slow), budget=calibration.budget(2)
    )
    timeline = pd.concat([rank_timeline(e, r) for r, e in enumerate(executed)], ignore_index=True)
    steps = pd.concat([rank_steps(e, r) for r, e in enumerate(executed)], ignore_index=True)
    initial = _quality(workload)
    m = measure(
        workload, executed[0], timeline, steps, calibration, late_steps=0, initial=initial,
        renders=render_views(executed[0].recipe, workload),
    )  # fmt: skip
    cell = Cell(arm=name, repeat=0, config=workload.config)
    result = record(cell, workload, m, collect_provenance(started=now()))
    write_timeline(timeline, store.path(result.cell_id) / TIMELINE)
    write_steps(steps, store.path(result.cell_id) / STEPS)
    store.write_result(result)


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


def test_a_recording_of_another_program_is_refused() -> None:
    keeper = cross_check.ReplayingKeeper(deque([(0, "bin", 1.0)]), 1)
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
    shaped = cross_check.recorded_phases(timeline, 1, gaps=True)
    assert list(shaped) == [(0, "cull", 1.0), (0, "project", 1.25), (0, "update", 1.0)]
    padded = cross_check.recorded_phases(timeline, 1, gaps=False)
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
