"""Which baseline the headline's ratio is against, where `ddp` is in the sequence."""

from __future__ import annotations

import csv
import io

import pytest

from harness.report.summary import Headline, headline
from harness.report.table import blocks, csv_text, markdown, plain_text
from harness.store.schema import Measurement, Result
from tests.store.samples import cell, measurement, provenance, quality, sequence

ARMS = ("barrier", "ddp", "quality")
SEQUENCE = (*ARMS, *reversed(ARMS))


def cells(ddp: float, arms: tuple[str, ...] = SEQUENCE, psnr: dict[str, float] | None = None) -> list[Result]:
    """A mirrored sequence whose `ddp` takes so many times as long as barrier; second runs are 0.4 % slower."""
    found = []
    for arm in dict.fromkeys(arms):
        for k in range(arms.count(arm)):
            made = _measured(arm, (ddp if arm == "ddp" else 1.0) * (1 + 0.004 * k), (psnr or {}).get(arm))
            found.append(Result.done(cell(arm, k, sequence=arms), made, provenance()))
    return found


def _measured(arm: str, factor: float, psnr: float | None) -> Measurement:
    changes = {} if psnr is None else {"quality_final": quality(psnr)}
    return measurement("barrier" if arm == "ddp" else arm, factor, **changes)


def titles(summary: Headline) -> list[str]:
    """Columns of the first table."""
    _, columns, _ = blocks(summary)[0]
    return [column.title for column in columns]


def test_a_slower_ddp_leaves_barrier_the_baseline() -> None:
    summary = headline(cells(1.02), SEQUENCE)
    assert summary.rival is not None and not summary.rival.leads
    assert "ddp 0.980× of barrier: barrier stays the baseline (noise floor 0.40 %)." in summary.caption.splitlines()
    assert "÷ ddp" not in plain_text(summary)


@pytest.mark.parametrize(("factor", "leads"), [(1 / 1.0039, False), (1 / 1.0041, True)])
def test_the_noise_floor_decides(factor: float, leads: bool) -> None:
    summary = headline(cells(factor), SEQUENCE)
    assert summary.rival is not None and summary.rival.leads is leads
    assert ("÷ ddp" in titles(summary)) is leads


def test_a_faster_ddp_gives_the_headline_ratio() -> None:
    summary = headline(cells(0.9), SEQUENCE)
    assert titles(summary)[:2] == ["speedup", "÷ ddp"]
    over = {row.arm: row.numbers.over_rival.value for row in summary.rows if row.numbers}
    assert over == {"barrier": pytest.approx(0.9), "ddp": 1.0, "quality": pytest.approx(0.9 * 300 / 240)}
    line = next(line for line in summary.caption.splitlines() if line.startswith("ddp "))
    assert line.startswith("ddp 1.111× of barrier, faster by more than the noise floor of 0.40 %: the headline ratio")
    assert "÷ ddp" in line and "against barrier." in line
    for text in (plain_text(summary), markdown(summary)):
        row = next(line for line in text.splitlines() if line.lstrip("| ").startswith("quality "))
        assert row.index("1.250×") < row.index("1.125×") and "padded" in row


def test_the_file_has_both_ratios_whichever_leads() -> None:
    for factor in (0.95, 1.02):
        rows = {r["arm"]: r for r in csv.DictReader(io.StringIO(csv_text(headline(cells(factor), SEQUENCE))))}
        assert float(rows["quality"]["speedup"]) == pytest.approx(1.25)
        assert float(rows["quality"]["speedup_over_ddp"]) == pytest.approx(1.25 * factor)
    rows = {r["arm"]: r for r in csv.DictReader(io.StringIO(csv_text(headline(sequence()))))}
    assert rows["quality"]["speedup_over_ddp"] == "n/a: no arm ddp"


def test_without_a_noise_floor_nothing_is_faster() -> None:
    summary = headline(cells(0.8, ARMS), ARMS)
    assert "ddp 1.250× of barrier: barrier stays the baseline (noise floor n/a: no arm ran twice)." in summary.caption
    assert "÷ ddp" not in titles(summary)


def test_a_ddp_that_failed_is_no_baseline() -> None:
    found = [r for r in cells(0.9) if (r.cell.arm, r.cell.repeat) != ("ddp", 1)]
    summary = headline(found, SEQUENCE)
    assert "ddp has no ratio to barrier (FAILED: complete: 1 of 2 runs" in summary.caption
    assert "barrier stays the baseline." in summary.caption and "÷ ddp" not in titles(summary)


def test_a_pair_with_ddp_passes_gates_of_its_own() -> None:
    """Within a decibel of barrier, but not of ddp: a ratio to the one, and none to the other."""
    summary = headline(cells(0.9, psnr={"ddp": 20.7, "quality": 21.9}), SEQUENCE)
    text = plain_text(summary)
    row = next(line for line in text.splitlines() if line.startswith("quality "))
    assert "1.250×" in row and "FAILED" in row
    assert "÷ ddp: FAILED: quality band: test PSNR differs from the baseline by +1.20 dB" in text


def test_no_ddp_is_nothing_said() -> None:
    summary = headline(sequence())
    assert summary.rival is None and "ddp" not in plain_text(summary)
