"""The table of what scopes and admission cost, on a tiny capture."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from benchmarks import admission

TINY = ["scene=rooms?views=16&width=64&height=48&points=900", "test_every=0", "steps=12", "densify=false", "sh_at=[]"]


def test_phases_add_up_to_the_step_and_the_limit_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "table.csv"
    assert admission.main([*TINY, "--limit", "100", "--csv", str(out)]) == 0
    frame = pd.read_csv(out, index_col=0)
    assert {"scopes", "hazards", "update", "between", "step"} <= set(frame.index)
    assert (frame.loc[["scopes", "hazards"], "barrier-planned"] == 0).all()
    assert (frame.loc[["scopes", "hazards", "step"], "quality"] > 0).all()
    assert frame.loc["step", "share_%"] == pytest.approx(100)
    assert 0 < frame.loc["hazard_pass", "quality"] < frame.loc["hazards", "quality"]
    assert frame.loc["hazard_pass", "barrier-planned"] == 0
    assert "scopes + hazards + cut" in capsys.readouterr().out
    assert admission.main([*TINY, "--limit", "0"]) == 1


def test_nothing_is_said_of_too_few_steps() -> None:
    with pytest.raises(Exception, match="Train more of them"):
        admission.main([*TINY, "steps=3"])
