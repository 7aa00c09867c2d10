"""The benchmark of Fig. 16 left on a tiny capture: flat in K beside a growing yardstick, errors as sentences."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from benchmarks import shadow_memory

TINY = ["scene=rooms?views=16&width=64&height=48&points=900", "test_every=0", "steps=6"]


def test_the_csv_is_flat_beside_a_growing_yardstick(tmp_path: Path) -> None:
    out = tmp_path / "new" / "memory.csv"
    assert shadow_memory.main([*TINY, "--regions", "1", "4", "--arms", "quality", "--out", str(out)]) == 0
    frame = pd.read_csv(out)
    assert list(frame.columns) == shadow_memory.CSV_COLUMNS
    assert list(frame.regions_used) == [0, 4]
    fixed = frame[[name for name in shadow_memory.MEASURED if name != "row_lists"]]
    assert (fixed.iloc[0] == fixed.iloc[1]).all()
    assert (frame.extra <= frame.formula_extra).all()
    state = frame.parameters + frame.moments + frame.gradient
    assert list(frame.replicated_extra) == [0, 3 * state[1]]


def test_unknown_words_are_answered_with_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shadow_memory.main([*TINY, "stepz=3", "--out", str(tmp_path / "memory.csv")]) == 2
    assert "stepz" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
