"""The laptop matrix that comes with the project, in a few lines with label and commit, under a headline."""

from __future__ import annotations

import csv
from pathlib import Path

from harness.store.identity import ROOT

SUMMARY = ROOT / "results" / "laptop" / "summary.csv"
QUANTITIES = ("mean_speedup", "mean_speedup_real")


def committed_lines(path: Path = SUMMARY) -> list[str]:
    """One line per arm of the committed headline, under a line with its commit; none where no summary is committed."""
    return _titled("Committed laptop matrix", path, "again: odin-bench reproduce headline scale=laptop")


def matrix_lines(out: Path, scale: str) -> list[str]:
    """The same of the matrix of a scale that was run here, from its summary."""
    return _titled(f"Matrix of scale {scale}", out / SUMMARY.name, f"every exhibit: {out / 'report.html'}")


def _titled(title: str, path: Path, more: str) -> list[str]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [
                row for row in csv.DictReader(file) if row["exhibit"] == "headline" and row["quantity"] in QUANTITIES
            ]
    except (OSError, KeyError, csv.Error):
        return []
    return [f"{title} (commit {rows[0]['commit']}; {more}):", *map(_line, rows)] if rows else []


def _line(row: dict[str, str]) -> str:
    range_ = f" [{float(row['low']):.3f}, {float(row['high']):.3f}]" if row["low"] else ""
    paper = f", paper {float(row['paper']):.2f}×" if row["paper"] else ""
    value = f"{float(row['value']):.3f}×{range_} over {row['n']} cells ({row['label']}){paper}"
    return f"  {row['arm']:<12} {row['quantity'].replace('_', ' '):<18} {value}"
