"""The laptop matrix that comes with the project, in a few lines with label and commit, under a headline."""

from __future__ import annotations

import csv
from pathlib import Path

from harness.store.identity import ROOT

SUMMARY = ROOT / "results" / "laptop" / "summary.csv"
QUANTITIES = ("mean_speedup", "mean_speedup_real", "mean_speedup_same_order")
CELLS = "matrix_cells"


def committed_lines(path: Path = SUMMARY) -> list[str]:
    """One line per arm of the committed headline, under a line with its commit; none where no summary is committed."""
    return _titled("Committed laptop matrix", path, "again: odin-bench reproduce headline scale=laptop")


def matrix_lines(out: Path, scale: str) -> list[str]:
    """The same of the matrix of a scale that was run here, from its summary."""
    return _titled(f"Matrix of scale {scale}", out / SUMMARY.name, f"every exhibit: {out / 'report.html'}")


def _titled(title: str, path: Path, more: str) -> list[str]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            headline = [row for row in csv.DictReader(file) if row["exhibit"] == "headline"]
    except (OSError, KeyError, csv.Error):
        return []
    rows = [row for row in headline if row["quantity"] in QUANTITIES and not _repeats(row)]
    whole = next((row["n"] for row in headline if row["quantity"] == CELLS and not row["pipeline"]), "")
    return [f"{title} (commit {rows[0]['commit']}; {more}):", *(_line(row, whole) for row in rows)] if rows else []


def _repeats(row: dict[str, str]) -> bool:
    """In barrier's own order, waiting in the same order is barrier."""
    return row["quantity"] == "mean_speedup_same_order" and row["arm"].endswith("-random")


def _line(row: dict[str, str], whole: str) -> str:
    """whole: cells of the matrix, where they are known; a mean over fewer says so."""
    range_ = f" [{float(row['low']):.3f}, {float(row['high']):.3f}]" if row["low"] else ""
    paper = f", paper {float(row['paper']):.2f}×" if row["paper"] else ""
    cells = f"{row['n']} of {whole}" if whole and row["quantity"] != "mean_speedup_real" else row["n"]
    value = f"{float(row['value']):.3f}×{range_} over {cells} cells ({row['label']}){paper}"
    return f"  {row['arm']:<16} {row['quantity'].replace('_', ' '):<23} {value}"
