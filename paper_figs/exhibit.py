"""What an exhibit is: what it needs, its tidy rows, its picture. A module of this package is one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pandas as pd
from matplotlib.figure import Figure

from paper_figs.cells import Cells


@dataclass(frozen=True, kw_only=True)
class Study:
    """The pairs of a study; role: its name without the scale."""

    role: str

    def there(self, cells: Cells) -> bool:
        """Whether a cell of it is recorded."""
        return bool(cells.pairs(self.role))

    def text(self) -> str:
        """For a sentence."""
        return f"study {self.role}"

    def part(self) -> str:
        """Part of a scale that makes it."""
        return self.role


@dataclass(frozen=True, kw_only=True)
class Table:
    """The CSV of a benchmark, `benchmarks/<name>.csv` below the folder of records."""

    name: str

    def there(self, cells: Cells) -> bool:
        """Whether it was made."""
        return cells.table(self.name) is not None

    def text(self) -> str:
        """For a sentence."""
        return f"table {self.name}"

    def part(self) -> str:
        """Part of a scale that makes it."""
        return self.name


Need = Study | Table


class Exhibit(Protocol):
    """One table or figure. Modules of this package fit.

    A module may also have `used(cells)`, the pairs that it shows where those are not all of its studies, `brackets`,
    the caption's sentence on low and high where they are not those of `paper_figs.tidy`, and `verdicts(rows)`, targets
    with what was reached.
    """

    @property
    def name(self) -> str:
        """Word on the command line and stem of files: fig8, table3, review1."""

    @property
    def title(self) -> str:
        """The paper's number and subject."""

    @property
    def note(self) -> str:
        """What is drawn and how to read it; first sentences of the caption, with a full stop at the end."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """All have to be there."""

    def rows(self, cells: Cells) -> pd.DataFrame:
        """Tidy rows (`paper_figs.tidy.COLUMNS`); none where the cells hold nothing of it."""

    def draw(self, cells: Cells, rows: pd.DataFrame) -> Figure | None:
        """The picture, or None for what is a table. Computes nothing that is not in the rows or a timeline."""


def missing(exhibit: Exhibit, cells: Cells) -> list[Need]:
    """What an exhibit lacks."""
    return [need for need in exhibit.needs if not need.there(cells)]


def command_for(needs: tuple[Need, ...] | list[Need], scale: str, out: Path) -> str:
    """The command that makes what is needed."""
    parts = ",".join(dict.fromkeys(need.part() for need in needs))
    return f"odin-bench reproduce all scale={scale} {f'only={parts} ' if parts else ''}out={out}"
