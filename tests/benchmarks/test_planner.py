"""The planner's benchmark: its captures are what it says, its baselines count what the planner counts, its CSV."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import planner
from benchmarks.planner_baselines import BASELINES
from benchmarks.synthetic_tracks import KINDS, LONGEST, make_tracks
from odin.planner import locality_graph


@pytest.mark.parametrize("kind", KINDS)
def test_captures_repeat_and_have_the_observations_asked_for(kind: str) -> None:
    tracks, centres = make_tracks(300, kind, "light", seed=1)
    again, _ = make_tracks(300, kind, "light", seed=1)
    other, _ = make_tracks(300, kind, "light", seed=2)
    assert np.array_equal(tracks.views, again.views)
    assert not np.array_equal(tracks.views[:100], other.views[:100])
    assert centres.shape == (300, 3)
    assert len(tracks.views) / 300 == pytest.approx(100, rel=0.1)
    lengths = np.diff(tracks.offsets)
    assert lengths.min() == 2
    assert lengths.max() <= min(LONGEST, 150)
    inside = np.ones(len(tracks.views), bool)
    inside[tracks.offsets[:-1]] = False
    assert np.all(np.diff(tracks.views)[inside[1:]] > 0)


@pytest.mark.parametrize("name", list(BASELINES))
def test_baselines_give_the_planners_graph(name: str) -> None:
    tracks, _ = make_tracks(120, "aerial", "light", seed=3)  # no track is longer than what baselines leave out
    ours, theirs = locality_graph(tracks), BASELINES[name](tracks)
    assert np.array_equal(ours.neighbours, theirs.neighbours)
    assert np.array_equal(ours.weights, theirs.weights)


def test_a_run_as_a_file_writes_its_columns(tmp_path: Path) -> None:
    csv = tmp_path / "out" / "planner.csv"
    command = [sys.executable, planner.__file__, "--images", "32", "64", "--kind", "aerial", "--obs", "light"]
    command += ["--settings", "default", "scipy", "--repeat", "1", "--baseline-limit", "32", "--csv", str(csv)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    frame = pd.read_csv(csv)
    assert list(frame.columns) == planner.COLUMNS
    assert frame[["images", "setting", "cold"]].to_numpy().tolist() == [
        [images, setting, cold]
        for images, setting in ((32, "default"), (32, "scipy"), (64, "default"))
        for cold in (True, False)
    ]
    assert (frame[["wall_s", "cpu_s", "threads"]] > 0).all(axis=None)
    assert "scipy at 64 images: left out" in done.stdout
    assert "not like for like" in done.stdout
    assert "exponent aerial light default" in done.stdout


def test_times_of_the_paper_stand_beside_ours_with_the_reason_not_to_compare() -> None:
    row = [1000, "aerial", "dense", "default", 1, False, 0.012, 0.011, 9.0, 0.5]
    text = planner.beside_the_paper(pd.DataFrame([row], columns=planner.COLUMNS))
    assert "not like for like: the paper states neither the observations per image" in text
    assert "1000 aerial dense default: 0.012 s wall, 0.011 s CPU; paper 0.013 s" in text


def test_sizes_that_cannot_be_planned_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        planner.parse(["--images", "15"])
    assert "--images is at least 16" in capsys.readouterr().err
