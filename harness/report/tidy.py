"""Rows that `odin-bench figures` wrote beside its pictures, read without pandas for the sentences of the page."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Row:
    """One number, as `paper_figs.tidy.COLUMNS`. low, high, paper: None where there is none."""

    exhibit: str
    quantity: str
    scene: str
    pipeline: str
    arm: str
    value: float
    low: float | None
    high: float | None
    paper: float | None
    unit: str
    label: str
    n: int

    @property
    def text(self) -> str:
        """The value with its unit; a share in percent."""
        return with_unit(self.value, self.unit)

    @property
    def beside(self) -> str:
        """The paper's number with its unit, or the empty string."""
        return "" if self.paper is None else with_unit(self.paper, self.unit)


def with_unit(value: float, unit: str) -> str:
    """A number for a sentence: 1.203×, 82.0 %, −1.00 dB, 0.735 s."""
    if unit == "share":
        return f"{100 * value:.1f} %"
    if unit == "ratio":
        return f"{value:.3f}×"
    return f"{value:.2f} dB" if unit == "dB" else f"{value:.4g} {unit}".strip()


class Tidy:
    """The rows of some exhibits; a file that is not there or of another form has none."""

    def __init__(self, folder: Path, exhibits: Iterable[str]) -> None:
        self._rows = [row for name in exhibits for row in _read(folder / f"{name}.csv")]

    def all(self, exhibit: str, quantity: str, arm: str | None = None) -> list[Row]:
        """Rows of a quantity, in the order of the file. arm: of this arm alone."""
        return [r for r in self._rows if (r.exhibit, r.quantity) == (exhibit, quantity) and arm in (None, r.arm)]

    def first(self, exhibit: str, quantity: str, arm: str | None = None) -> Row | None:
        """The first of them, or None."""
        return next(iter(self.all(exhibit, quantity, arm)), None)


def _read(path: Path) -> Iterator[Row]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            yield from [_row(line) for line in csv.DictReader(file)]
    except (OSError, ValueError, KeyError, TypeError, csv.Error):
        return


def _row(line: dict[str, str]) -> Row:
    low, high, paper = (float(line[key]) if line[key] else None for key in ("low", "high", "paper"))
    return Row(
        exhibit=line["exhibit"], quantity=line["quantity"], scene=line["scene"], pipeline=line["pipeline"],
        arm=line["arm"], value=float(line["value"]), low=low, high=high, paper=paper, unit=line["unit"],
        label=line["label"], n=int(line["n"]),
    )  # fmt: skip
