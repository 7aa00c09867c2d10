"""The table in its four forms, against golden files. Write them again with ODIN_GOLDEN=write."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from harness.report.summary import Headline, headline
from harness.report.table import (
    SAME_ORDER,
    SECTIONS,
    blocks,
    csv_text,
    markdown,
    plain_text,
    print_headline,
    write_tables,
)
from harness.store.schema import Result
from tests.store.samples import ARMS, cell, provenance, result, sequence

GOLDEN = Path(__file__).parent / "golden"


def good() -> Headline:
    """All pairs pass."""
    return headline(sequence())


def failed() -> Headline:
    """`predicted` has failed, and there are no test views."""
    cells = [result(r.cell.arm, r.cell.repeat, 1 + 0.004 * r.cell.repeat, views=0) for r in sequence()]
    return headline([*cells[:-1], Result.failed(cell("predicted", 1), "rank 1 | was killed", provenance())])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("good.txt", plain_text(good())),
        ("failed.txt", plain_text(failed())),
        ("failed.md", markdown(failed())),
        ("failed.csv", csv_text(failed())),
    ],
)
def test_against_the_golden_file(name: str, text: str) -> None:
    if os.environ.get("ODIN_GOLDEN") == "write":
        (GOLDEN / name).write_text(text, encoding="utf-8")
    assert text == (GOLDEN / name).read_text(encoding="utf-8")


def test_every_row_and_the_caption_carry_the_label() -> None:
    *tables, notes = plain_text(good()).split("\n\n")
    for table in tables:
        rows = table.splitlines()[2:]
        arms = ARMS[1:] if table.startswith(SAME_ORDER) else ARMS
        assert [row.split()[:2] for row in rows] == [[arm, "padded"] for arm in arms]
    assert "Evidence label of every number: padded" in notes


def test_a_failed_pair_shows_no_number_anywhere() -> None:
    for text in (plain_text(failed()), markdown(failed())):
        rows = [line for line in text.splitlines() if "predicted" in line.split("|")[0 if "|" not in line else 1][:12]]
        assert len(rows) == len(blocks(failed())) and all(
            "FAILED" in row and not any(c.isdigit() for c in row) for row in rows
        )
        assert "FAILED predicted: complete: predicted run 1 failed: rank 1" in text
    row = list(csv.DictReader(io.StringIO(csv_text(failed()))))[-1]
    assert (row["status"], row["speedup"], row["reason"].endswith("was killed")) == ("FAILED", "", True)


def test_an_absent_number_is_its_reason_and_never_nan() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(failed()))))
    assert rows[0]["psnr_final_db"] == "n/a: no test views"
    assert float(rows[2]["speedup"]) == pytest.approx(1.25)
    for text in (plain_text(failed()), markdown(failed()), csv_text(failed())):
        assert "nan" not in text.lower().replace("nanosecond", "")
    assert "start dB, final dB, Δ dB, SSIM: n/a: no test views (barrier, barrier-planned, quality)." in plain_text(
        failed()
    )


def test_a_log_gets_plain_text_and_a_terminal_a_table() -> None:
    log = Console(file=io.StringIO(), width=40)
    print_headline(good(), log)
    assert log.file.getvalue() == plain_text(good())
    terminal = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    print_headline(good(), terminal)
    shown = terminal.file.getvalue()
    assert "Throughput" in shown and "1.250×" in shown and "…" not in shown
    assert all(f"{arm} " in shown for arm in ARMS)
    narrow = Console(file=io.StringIO(), width=60, force_terminal=True)
    print_headline(good(), narrow)
    assert narrow.file.getvalue() == plain_text(good())


def test_what_rounds_to_zero_has_no_minus_sign() -> None:
    column = next(c for c in SECTIONS["Where a step goes (ms)"] if c.title == "other")
    assert format(-1e-9, column.form) == "0.0"


def test_files_are_written_with_one_content_each(tmp_path: Path) -> None:
    assert [p.name for p in write_tables(good(), tmp_path)] == ["headline.md", "headline.csv", "headline.txt"]
    assert (tmp_path / "headline.csv").read_text() == csv_text(good())
