"""Memory per rank on a tiny capture: one table against one for each rank; errors as sentences."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from benchmarks import virtual_memory

TINY = ["scene=rooms?views=16&width=64&height=48&points=900", "test_every=0", "steps=3"]


def test_a_line_says_how_many_tables_there_are() -> None:
    shared, apart = (virtual_memory.line(TINY, 2, "barrier", share) for share in (True, False))
    assert (shared["tables"], apart["tables"]) == (1, 2)
    assert shared["rows"] == apart["rows"]
    rows = shared["rows"]
    assert shared["table_bytes"] == rows * 59 * 4 * 3
    assert shared["slot_bytes"] == 2 * rows * (59 * 4 + 2 * 8)


def test_words_that_mean_nothing_are_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert virtual_memory.main(["nonsense=3", "--ranks", "2", "--out", str(tmp_path / "x.csv")]) == 2
    assert "nonsense" in capsys.readouterr().err
    assert not (tmp_path / "x.csv").exists()


def test_the_csv_has_its_columns(tmp_path: Path) -> None:
    out = tmp_path / "new" / "memory.csv"
    assert virtual_memory.main([*TINY, "--ranks", "2", "--arm", "barrier", "--out", str(out)]) == 0
    frame = pd.read_csv(out)
    assert list(frame.columns) == virtual_memory.CSV_COLUMNS
    assert list(frame.tables) == [1, 2]
