"""What a cell keeps of its windows in files: seconds that are those of its breakdown, and histograms of late rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.measure.windows import read_delays, read_windows
from harness.report.headline import report_headline
from harness.store.store import DELAYS, WINDOWS
from tests.run.test_virtual import records

LATE = "throughput:histograms=on:tau=0.8"


def test_windows_have_seconds_and_late_rows_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = records(tmp_path / "runs", ["barrier", "quality", LATE], retime=True)
    for (name, _), (result, folder) in found.items():
        m, windows = result.measurement, read_windows(folder / WINDOWS)
        assert m is not None and windows.notna().all(axis=None)
        for column, part in (("transfer_s", m.breakdown.transfer), ("skew_s", m.breakdown.skew)):
            assert windows[column].sum() <= part * m.steps + 1e-9  # the last step has no window
        assert windows["transfer_s"].sum() > 0
        assert (folder / DELAYS).exists() == (name == LATE)  # also of a repeat, which is a copy
    assert read_delays(found[LATE, 1][1] / DELAYS)["rows"].sum() > 0
    report_headline(tmp_path / "runs")  # its code says whether a tiny scene stays within the quality band
    assert "Rows read late" in capsys.readouterr().out
