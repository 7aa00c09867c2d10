"""The committed matrix under a headline: every number with its label, none where nothing is committed."""

from __future__ import annotations

from pathlib import Path

from harness.report.committed import committed_lines, matrix_lines

HEAD = "exhibit,quantity,scene,pipeline,arm,value,low,high,paper,unit,label,n,commit\n"


def test_lines(tmp_path: Path) -> None:
    path = tmp_path / "summary.csv"
    path.write_text(
        HEAD + "headline,mean_speedup,,,throughput,1.25,1.1,1.4,1.22,ratio,virtual,20,0123456789ab\n"
        "headline,mean_hidden,,,throughput,0.5,,,,share,virtual,20,0123456789ab\n"
        "fig8,mean_speedup,,3DGS,throughput,1.2,,,,ratio,virtual,5,0123456789ab\n"
        "headline,mean_speedup_real,,,quality,1.2,,,,ratio,virtual,1,0123456789ab\n"
    )
    head, first, second = committed_lines(path)
    assert "commit 0123456789ab" in head and "scale=laptop" in head
    assert " ".join(first.split()) == (
        "throughput mean speedup 1.250× [1.100, 1.400] over 20 cells (virtual), paper 1.22×"
    )
    assert " ".join(second.split()) == "quality mean speedup real 1.200× over 1 cells (virtual)"


def test_the_matrix_that_was_run_here_is_told_alike(tmp_path: Path) -> None:
    row = "headline,mean_speedup,,,predicted,1.31,,,,ratio,virtual,20,0123456789ab\n"
    (tmp_path / "summary.csv").write_text(HEAD + row)
    head, line = matrix_lines(tmp_path, "laptop")
    assert head.startswith("Matrix of scale laptop (commit 0123456789ab; ") and "report.html" in head
    assert committed_lines(tmp_path / "summary.csv")[1:] == [line] and "1.310× over 20 cells (virtual)" in line
    assert matrix_lines(tmp_path / "absent", "laptop") == []


def test_nothing_committed_is_nothing_said(tmp_path: Path) -> None:
    assert committed_lines(tmp_path / "absent.csv") == []
    (tmp_path / "summary.csv").write_text(HEAD)
    assert committed_lines(tmp_path / "summary.csv") == []
