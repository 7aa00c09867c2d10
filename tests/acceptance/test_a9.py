"""A9: a sweep of three cells, the middle one raises."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli import main
from harness.study.table import read_table
from tests.faults.forked import Forked

STUDY = """
set: {scene: 'rooms?views=16&width=48&height=36&points=300', link: none, padded: false, ranks: 1, steps: 3,
      mirrored: false, realtime: false, timeout_s: 600}
axes:
  case: [{seed: 0}, {seed: 1, faults: ['raise:step=2:times=1']}, {seed: 2}]
pairs: [[barrier]]
"""


def test_the_middle_cell_of_a_sweep_raises(
    tmp_path: Path, forked: list[Forked], capsys: pytest.CaptureFixture[str]
) -> None:
    study, out = tmp_path / "sweep.yaml", tmp_path / "runs"
    study.write_text(STUDY)
    command = ["run", str(study), f"out={out}"]
    assert main(command) == 1
    assert len(forked) == 3
    table = read_table(out / "studies/sweep/table.parquet")
    assert table["state"].tolist() == ["done", "failed", "done"]
    reason = table["reason"][1]
    assert "Rank 0 was the first to fail, after 2 steps of barrier #1: RuntimeError: fault injected" in reason
    assert reason in capsys.readouterr().err
    before = {path: path.stat().st_mtime_ns for path in out.glob("cells/*/result.json")}
    assert main(command) == 0
    assert len(forked) == 4
    assert read_table(out / "studies/sweep/table.parquet")["state"].tolist() == ["done"] * 3
    assert sum(path.stat().st_mtime_ns != stamp for path, stamp in before.items()) == 1
