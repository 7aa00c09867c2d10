"""`odin-bench report`: from records on disk to a printed table, files and an exit code."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from harness.report.headline import report_headline, sequences
from harness.report.summary import headline
from harness.report.table import plain_text
from harness.store.schema import Result
from harness.store.store import CellStore
from odin.errors import InputError
from tests.store.samples import cell, measurement, provenance, sequence

NAME = "rooms-77aa88bb-feedc0de"
FILES = ["headline.csv", "headline.md", "headline.pdf", "headline.png", "headline.txt", "headline_caption.txt"]


def report(folder: Path) -> tuple[int, str]:
    """Exit code and what was printed."""
    console = Console(file=io.StringIO(), width=60)
    return report_headline(folder, console), console.file.getvalue()


def test_a_complete_store_prints_and_writes_its_headline(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    for record in sequence():
        store.write_result(record)
    code, printed = report(tmp_path)
    assert code == 0
    assert printed.startswith(plain_text(headline(sequence())))
    assert str(tmp_path / "report" / NAME / "headline.pdf") in printed.splitlines()
    assert sorted(p.name for p in (tmp_path / "report" / NAME).iterdir()) == FILES


def test_a_failed_cell_is_an_exit_code(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    for record in sequence()[:-1]:
        store.write_result(record)
    store.write_result(Result.failed(cell("predicted", 1), "rank 1 was killed", provenance()))
    code, printed = report(tmp_path)
    assert code == 1 and "FAILED predicted: complete: predicted run 1 failed: rank 1 was killed" in printed


def test_records_of_two_code_versions_are_two_tables() -> None:
    old = [Result.done(r.cell, measurement(r.cell.arm), provenance(code_version="older")) for r in sequence()]
    assert {name: len(group) for name, group in sequences([*sequence(), *old]).items()} == {
        NAME: 8,
        "rooms-77aa88bb-older": 8,
    }


def test_a_scene_may_be_called_anything() -> None:
    odd = Result.done(cell(scene="../my scene/a"), measurement(), provenance())
    assert list(sequences([odd])) == [".._my_scene_a-77aa88bb-feedc0de"]


def test_a_folder_without_records_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no records"):
        report_headline(tmp_path / "typo")
    CellStore(tmp_path)
    with pytest.raises(InputError, match="odin-bench reproduce headline"):
        report_headline(tmp_path)
