"""The two frames: what they must look like, their files, and the trace for Perfetto."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from harness.measure.timeline import (
    STEP_COLUMNS,
    TIMELINE_COLUMNS,
    check_steps,
    check_timeline,
    chrome_trace,
    read_steps,
    read_timeline,
    step_losses,
    step_seconds,
    steps_frame,
    timeline_frame,
    write_steps,
    write_timeline,
    write_trace,
)
from odin.errors import InputError

from .frames import LINES, NAN, steps, timeline


def test_the_builder_fills_what_may_be_left_out() -> None:
    frame = timeline_frame(
        {
            "rank": [0],
            "step": [1],
            "kind": ["phase"],
            "name": ["blend"],
            "category": ["useful"],
            "start": [0],
            "end": [1],
        }
    )
    assert list(frame.columns) == list(TIMELINE_COLUMNS)
    assert np.isnan(frame["last_join"][0]) and frame["bytes"][0] == 0 and frame["work_pixels"][0] == 0


@pytest.mark.parametrize(
    "row, column, value, rule",
    [
        (0, "kind", "sleep", "kind is one of"),
        (0, "category", "wait", "a phase has category"),
        (1, "category", "useful", "a wait has category wait"),
        (14, "category", "wait", "a collective has category link"),
        (0, "end", -1.0, "start ≤ end"),
        (0, "start", NAN, "no value in row 0"),
        (0, "end", np.inf, "finite"),
        (0, "last_join", 1.0, "last_join is a time in waits"),
        (1, "last_join", NAN, "last_join is a time in waits"),
        (14, "last_join", 7.0, "ends after its last rank joined"),
        (0, "bytes", 8, "only a collective has bytes"),
        (14, "bytes", -8, "not negative"),
        (0, "rank", -1, "not negative"),
        (0, "work_rows", -1, "not negative"),
        (0, "name", None, "no value in row 0"),
    ],
)
def test_the_timeline_validator_rejects(row: int, column: str, value: Any, rule: str) -> None:
    frame = timeline()
    frame.loc[row, column] = value
    with pytest.raises(InputError, match=rule):
        check_timeline(frame)


@pytest.mark.parametrize("column", TIMELINE_COLUMNS)
def test_the_timeline_validator_rejects_a_missing_column_and_a_wrong_type(column: str) -> None:
    frame = timeline()
    with pytest.raises(InputError, match="has columns"):
        check_timeline(frame.drop(columns=column))
    frame[column] = frame[column].astype("category")
    with pytest.raises(InputError, match=f"'{column}' of a timeline is"):
        check_timeline(frame)


def test_an_unknown_column_and_a_wrong_value_are_refused_by_the_builder() -> None:
    with pytest.raises(InputError, match="has no \\['colour'\\]"):
        timeline(colour=[0] * len(LINES))
    with pytest.raises(InputError, match="wrong type"):
        timeline(step=["one"] * len(LINES))
    with pytest.raises(InputError, match="lacks"):
        steps_frame({"rank": [0]})


@pytest.mark.parametrize(
    "change, rule",
    [
        (lambda f: f.drop(index=3), "every rank has every step once"),
        (lambda f: pd.concat([f, f.iloc[:1]], ignore_index=True), "has a step once"),
        (lambda f: f.assign(step=f["step"] * 2), "every rank has every step once"),
        (lambda f: f.assign(structural=[False, True, False, False]), "disagree on whether step 1"),
        (lambda f: f.assign(loss=np.inf), "loss is a finite number"),
        (lambda f: f.assign(loss=np.nan), "no value"),
        (lambda f: f.assign(end=f["start"] - 1), "start ≤ end"),
        (lambda f: f.iloc[:0], "at least one step"),
        (lambda f: f.assign(structural=1), "structural"),
    ],
)
def test_the_steps_validator_rejects(change: Any, rule: str) -> None:
    assert list(check_steps(steps()).columns) == list(STEP_COLUMNS)
    with pytest.raises(InputError, match=rule):
        check_steps(change(steps()))


def test_frames_survive_their_files(tmp_path: Path) -> None:
    write_timeline(timeline(), tmp_path / "t.parquet")
    write_steps(steps(), tmp_path / "s.parquet")
    pd.testing.assert_frame_equal(read_timeline(tmp_path / "t.parquet"), timeline())
    pd.testing.assert_frame_equal(read_steps(tmp_path / "s.parquet"), steps())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s.parquet", "t.parquet"]


def test_an_unusable_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    with pytest.raises(InputError, match=r"t\.parquet"):
        read_timeline(path)
    write_steps(steps(), path)
    with pytest.raises(InputError, match=r"t\.parquet.*has columns"):
        read_timeline(path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match=r"t\.parquet"):
        read_timeline(path)


def test_a_broken_frame_does_not_replace_a_good_file(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_timeline(timeline(), path)
    before = path.read_bytes()
    with pytest.raises(InputError):
        write_timeline(timeline().assign(end=-1.0), path)
    assert path.read_bytes() == before


def test_raw_step_times_sum_to_the_wall_time() -> None:
    uneven = steps()
    uneven.loc[uneven["rank"] == 1, "end"] = [7.5, 13.0]
    assert step_seconds(uneven) == [7.5, 6.5]
    assert step_losses(uneven) == pytest.approx([0.4, 0.3])


def test_the_trace_has_a_process_per_rank_and_three_tracks(tmp_path: Path) -> None:
    write_trace(timeline(bytes=[0] * 14 + [64, 64]), tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {(e["pid"], e["args"]["name"]) for e in events if e["name"] == "thread_name"}
    assert names == {(rank, track) for rank in (0, 1) for track in ("compute", "wait", "link")}
    assert {e["args"]["name"] for e in events if e["name"] == "process_name"} == {"rank 0", "rank 1"}
    slices = [e for e in events if e["ph"] == "X"]
    assert len(slices) == len(LINES)
    assert slices[0] | {"args": None} == {
        "ph": "X", "pid": 0, "tid": 0, "name": "blend", "cat": "useful", "ts": 0.0, "dur": 4e6, "args": None,
    }  # fmt: skip
    link = next(e for e in slices if e["cat"] == "link")
    assert link["args"] == {"step": 0, "bytes": 64, "last_join_us": 5e6}


def test_slices_of_one_track_never_overlap() -> None:
    lines = [
        (0, 0, "collective", "colours", "link", 0.0, 2.0, 0.0),
        (0, 0, "collective", "geometry", "link", 1.0, 3.0, 0.0),
        (0, 0, "collective", "rest", "link", 2.0, 4.0, 0.0),
    ]
    events = chrome_trace(timeline(lines))["traceEvents"]
    tracks = [e["args"]["name"] for e in events if e["name"] == "thread_name"]
    assert tracks == ["compute", "wait", "link", "link 2"]
    assert [e["tid"] for e in events if e["ph"] == "X"] == [2, 2, 3]
