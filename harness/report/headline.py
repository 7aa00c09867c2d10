"""`odin-bench report`: the headline's table and figure from records alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console

from harness.report.figure import write_headline_figure
from harness.report.reduction import model_differences
from harness.report.summary import Headline, headline
from harness.report.table import print_headline, write_tables
from harness.report.windows import beside
from harness.store.schema import Result
from harness.store.store import CellStore
from odin.errors import InputError


def report_headline(folder: Path, console: Console | None = None) -> int:
    """Print the headline of every sequence of cells recorded in the folder and write it below `report/`.

    Returns the exit code: 1 when a row has FAILED, else 0. Raises InputError where there is no record.
    """
    store = CellStore(folder, create=False)
    groups = sequences(store.results())
    if not groups:
        raise InputError(f"{folder} holds no records yet. Make them with: odin-bench reproduce headline out={folder}")
    console = console or Console()
    code = 0
    for name, results in groups.items():
        summary = headline_of(store, results)
        print_headline(summary, console)
        for path in write_headline(summary, folder / "report" / name):
            console.print(str(path), soft_wrap=True, highlight=False)
        code = max(code, int(any(row.numbers is None for row in summary.rows)))
    return code


def headline_of(store: CellStore, results: Sequence[Result]) -> Headline:
    """The headline of the recorded cells of one sequence, with what lies in files beside their records."""
    differences = model_differences(store, results)
    return headline(results, results[0].cell.sequence, differences, beside(store, results))


def write_headline(summary: Headline, folder: Path) -> list[Path]:
    """All files of a headline: Markdown, CSV, text, PDF, PNG, caption. Raises RunError when the disk refuses."""
    return [*write_tables(summary, folder), *write_headline_figure(summary, folder)]


def sequences(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Records by the sequence they belong to, `<scene>-<pair>-<code version>`; one code, one table."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        # A scene may be called anything; this is the name of a folder.
        scene = re.sub(r"[^A-Za-z0-9._-]+", "_", result.cell.scene)
        name = f"{scene}-{result.cell.pair[:8]}-{result.provenance.code_version[:8]}"
        groups.setdefault(name, []).append(result)
    return groups
