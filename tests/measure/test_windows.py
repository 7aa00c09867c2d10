"""Seconds per window from timelines written by hand, and window files of this version and of earlier ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from harness.measure.breakdown import breakdown
from harness.measure.windows import (
    DELAY_COLUMNS,
    WINDOW_COLUMNS,
    delays_frame,
    read_delays,
    read_windows,
    waited_seconds,
    windows_frame,
    write_windows,
)
from odin.errors import InputError
from odin.publication import Window, WindowState
from odin.publication.delays import Delays, octaves
from tests.measure import frames, ring

NAN = float("nan")
# What the columns were before seconds were recorded.
EARLIER = ("step", "state", "reason", "waited_rows", "delayed_rows", "write_rows", "rows", "raw", "waw", "war")


def windows(count: int) -> list[Window]:
    return [Window(step=s, state=WindowState.PARTIAL, waited_rows=2, write_rows=3, rows=8) for s in range(count)]


@pytest.mark.parametrize("overlapped", [True, False])
def test_a_wait_belongs_to_the_step_that_sent(overlapped: bool) -> None:
    """In the ring a gradient arrives 3 s after the last rank has joined; waited for at once or a step later."""
    timeline, steps = ring.timeline(4, 2, late=1.0, overlapped=overlapped), ring.steps_of(4, 2)
    waited = waited_seconds(timeline, steps)
    assert list(waited.index) == [0, 1, 2, 3]
    if overlapped:  # a step later everything has long arrived
        assert waited.to_numpy() == pytest.approx(np.zeros((4, 2)))
    else:  # rank 0 waits from second 6 to 10, the last rank joins at 7; rank 1 waits from 7 to 10
        assert waited["skew_s"].tolist() == pytest.approx([0.5] * 4)
        assert waited["transfer_s"].tolist() == pytest.approx([3.0] * 4)


def test_a_wait_in_the_next_step_counts_for_the_window_before_it() -> None:
    """Rank 1 is so late that rank 0 waits in step 1 for what rank 1 joins after that: it still began step 1 later."""
    lines: list[frames.Line] = [
        (0, 0, "phase", "blend", "useful", 0, 10, NAN),
        (0, 1, "wait", "geometry", "wait", 11, 15, 12),
        (0, 1, "wait", "all", "wait", 20, 26, 21),
        (1, 0, "phase", "blend", "useful", 0, 12, NAN),
        (1, 1, "wait", "geometry", "wait", 14, 15, 12),
        (1, 1, "wait", "all", "wait", 21, 26, 21),
    ]
    steps = frames.steps((False, True), (0, 10, 26))
    steps.loc[(steps["rank"] == 1) & (steps["step"] == 1), "start"] = 14.0
    steps.loc[(steps["rank"] == 1) & (steps["step"] == 0), "end"] = 14.0
    waited = waited_seconds(frames.timeline(lines), steps)
    assert waited.loc[0].tolist() == pytest.approx([(3 + 1) / 2, 1 / 2])
    assert waited.loc[1].tolist() == pytest.approx([(5 + 5) / 2, 1 / 2])  # closed: waited for in its own step


def test_nothing_that_is_waited_for_is_lost() -> None:
    timeline, steps = frames.timeline(), frames.steps()
    parts, waited = breakdown(timeline, steps), waited_seconds(timeline, steps).sum()
    assert waited["transfer_s"] == pytest.approx(parts.transfer * parts.steps)
    assert waited["skew_s"] == pytest.approx(parts.skew * parts.steps)


def test_a_cell_that_waits_for_nothing_has_zeros() -> None:
    lines = [line for line in frames.LINES if line[2] == "phase"]
    assert waited_seconds(frames.timeline(lines), frames.steps()).to_numpy().tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_the_frame_takes_the_seconds_of_its_windows() -> None:
    waited = pd.DataFrame({"transfer_s": [0.1, 0.2, 0.3], "skew_s": [0.0, 0.5, 0.0]}, index=[0, 1, 2])
    frame = windows_frame(windows(3)[1:], waited)
    assert list(frame.columns) == list(WINDOW_COLUMNS)
    assert frame[["step", "transfer_s", "skew_s"]].to_numpy().tolist() == [[1, 0.2, 0.5], [2, 0.3, 0.0]]
    assert windows_frame(windows(2))[["transfer_s", "skew_s"]].isna().all(axis=None)
    assert list(windows_frame([], waited).columns) == list(WINDOW_COLUMNS)


def test_a_file_comes_back_and_one_without_seconds_is_readable(tmp_path: Path) -> None:
    waited = pd.DataFrame({"transfer_s": [0.1, 0.2], "skew_s": [0.0, 0.5]}, index=[0, 1])
    frame = windows_frame(windows(2), waited)
    write_windows(frame, tmp_path / "new.parquet")
    pd.testing.assert_frame_equal(read_windows(tmp_path / "new.parquet"), frame)
    write_windows(frame[list(EARLIER)], tmp_path / "old.parquet")
    old = read_windows(tmp_path / "old.parquet")
    pd.testing.assert_frame_equal(old[list(EARLIER)], frame[list(EARLIER)])
    assert old[["transfer_s", "skew_s"]].isna().all(axis=None)
    write_windows(frame[:0], tmp_path / "none.parquet")
    assert read_windows(tmp_path / "none.parquet").empty


def test_what_is_no_file_of_windows_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "torn.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"torn\.parquet"):
        read_windows(tmp_path / "torn.parquet")
    write_windows(windows_frame(windows(2)).drop(columns="waw"), tmp_path / "other.parquet")
    with pytest.raises(InputError, match="waw"):
        read_windows(tmp_path / "other.parquet")
    with pytest.raises(InputError, match=r"absent\.parquet"):
        read_delays(tmp_path / "absent.parquet")


def test_histograms_come_back(tmp_path: Path) -> None:
    (local, none), (reduced, _) = octaves(np.array([0.0, 0.3, 1.5])), octaves(np.array([0.3]))
    window = Delays(step=3, mean=0.5, local=local, reduced=reduced, update=reduced, without=(none, 0, 0))
    frame = delays_frame([window])
    write_windows(frame, tmp_path / "delays.parquet")
    pd.testing.assert_frame_equal(read_delays(tmp_path / "delays.parquet"), frame)
    assert list(frame.columns) == list(DELAY_COLUMNS) and frame["rows"].sum() == 5
