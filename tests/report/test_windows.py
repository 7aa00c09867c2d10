"""The window section: rows in conflict, rows read late from their histograms, and what audits saw and took."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from harness.measure.timeline import write_timeline
from harness.measure.windows import delays_frame, write_windows
from harness.report.headline import headline_of, report_headline
from harness.report.summary import Headline, headline
from harness.report.table import blocks, csv_text, markdown, plain_text, print_headline
from harness.report.windows import audit_seconds, beside, late_rows
from harness.store.schema import Audit, Result, Windows
from harness.store.store import DELAYS, TIMELINE, CellStore
from odin.publication.delays import Delays, octaves
from tests.measure import frames
from tests.store.samples import ARMS, SEQUENCE, cell, measurement, provenance, result, sequence

NAN = float("nan")
LATE = "throughput:histograms=on"
AUDITS = (
    Audit(step=1, error=0.02, by_kind={"xyz": 0.01, "f_rest": 0.04}, pixel=0.003),
    Audit(step=3, error=0.07, by_kind={"xyz": 0.09, "f_rest": 0.01}, pixel=0.012),
)


def window(step: int, local: list[float], reduced: list[float], update: list[float]) -> Delays:
    """Of rows with these norms and updates."""
    counted = [octaves(np.array(values)) for values in (local, reduced, update)]
    bins = dict(zip(("local", "reduced", "update"), (found for found, _ in counted), strict=True))
    return Delays(step=step, mean=1.0, without=tuple(none for _, none in counted), **bins)


TWO = [
    window(1, [0.0, 0.0, 0.3, 0.3, 0.3, 1.5], [0.1, 0.1, 0.1], [0.2, 0.3, 0.6]),
    window(2, [0.0] * 14, [0.1] * 7, [0.3] * 7),
]


def audited(seconds: float) -> Any:
    """A timeline of two ranks in which an audit takes so long on either, and a recomputed blend as long again."""
    rows: list[frames.Line] = []
    for rank in (0, 1):
        rows.append((rank, 0, "phase", "blend", "useful", 0, 4, NAN))
        rows.append((rank, 0, "phase", "scopes", "odin", 4, 5, NAN))
        rows.append((rank, 0, "phase", "blend", "odin", 5, 5 + seconds, NAN))
        rows.append((rank, 0, "phase", "audit", "odin", 5 + seconds, 5 + 2 * seconds, NAN))
        rows.append((rank, 0, "wait", "audit", "wait", 5 + 2 * seconds, 5 + 2 * seconds + 0.5, 5 + 2 * seconds))
        rows.append((rank, 0, "collective", "audit", "link", 5 + 2 * seconds, 5 + 2 * seconds + 0.5, 5 + 2 * seconds))
    return frames.timeline(rows)


def section(summary: Headline, start: str) -> list[str]:
    """Lines of the table whose title starts like this, [] where there is none."""
    found = [text for text in plain_text(summary).split("\n\n") if text.startswith(start)]
    return found[0].splitlines() if found else []


def changed(arm: str, **changes: Any) -> list[Result]:
    """The usual sequence with the measurements of an arm changed."""
    return [result(r.cell.arm, r.cell.repeat, 1 + 0.004 * r.cell.repeat, **changes) if r.cell.arm == arm else r
            for r in sequence()]  # fmt: skip


# Rows read late ------------------------------------------------------------------------------------------------------


def test_percentiles_are_upper_edges_of_octaves() -> None:
    late = late_rows(delays_frame(TWO))
    assert late.rows.value == 10
    assert (late.local.median.value, late.local.high.value) == (0.0, 0.5)  # 16 of 20 ranks saw no gradient, 3 saw 0.3
    assert (late.reduced.median.value, late.reduced.high.value) == (0.125, 0.125)
    assert (late.update.median.value, late.update.high.value) == (0.5, 1.0)


def test_the_last_octave_has_no_upper_edge() -> None:
    late = late_rows(delays_frame([window(1, [50.0], [1e6], [31.0])]))
    assert late.local.median.text(".3g").startswith("≥ 32: the last octave")
    assert late.reduced.high.reason == late.local.high.reason
    assert late.update.high.value == 32.0


def test_the_first_octave_holds_whatever_is_smaller() -> None:
    assert late_rows(delays_frame([window(1, [1e-9], [1e-9], [1e-9])])).update.median.value == 2.0**-11


def test_no_window_with_late_rows_is_a_reason() -> None:
    for windows in ([], [window(1, [], [], [])]):
        assert late_rows(delays_frame(windows)).rows.reason == "n/a: no row was read late"


def late_cells(store: CellStore) -> list[Result]:
    """A sequence of barrier and an arm with histograms, recorded."""
    arms = ("barrier", LATE)
    found = [Result.done(cell(arm, 0, sequence=arms), measurement(named), provenance())
             for arm, named in zip(arms, ("barrier", "quality"), strict=True)]  # fmt: skip
    for one in found:
        store.write_result(one)
    return found


def test_histograms_are_printed_where_they_are_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = CellStore(tmp_path)
    records = late_cells(store)
    write_windows(delays_frame(TWO), store.path(records[1].cell_id) / DELAYS)
    summary = headline_of(store, records)
    title, head, row = section(summary, "Rows read late")
    assert "95 %" in title and head.split()[:4] == ["arm", "label", "n", "rows"]
    assert row.split() == [LATE, "padded", "10", "0", "0.5", "0.125", "0.125", "0.5", "1"]
    assert [t for t, _, _ in blocks(summary)].index(title) == 3  # right below the windows
    assert "Rows read late" in markdown(summary)
    found = list(csv.DictReader(io.StringIO(csv_text(summary))))
    assert (found[1]["late_rows"], found[1]["late_update_p95"]) == ("10", "1")
    assert found[0]["late_rows"] == "n/a: histograms are off"
    assert report_headline(tmp_path) == 0
    assert "Rows read late" in capsys.readouterr().out


@pytest.mark.parametrize(("torn", "says"), [(False, "no delays.parquet is recorded"), (True, "does not hold")])
def test_histograms_that_are_on_and_cannot_be_read_say_why(tmp_path: Path, torn: bool, says: str) -> None:
    store = CellStore(tmp_path)
    records = late_cells(store)
    if torn:
        (store.path(records[1].cell_id) / DELAYS).write_bytes(b"PAR1")
    summary = headline_of(store, records)
    assert section(summary, "Rows read late")[2].split() == [LATE, "padded", *["n/a"] * 7]
    (reason,) = [line for line in plain_text(summary).splitlines() if line.startswith("n rows, local 50 %")]
    assert says in reason and reason.endswith(f"({LATE}).")


# Conflicts -----------------------------------------------------------------------------------------------------------


def compared(raw: float, waw: float) -> Windows:
    return Windows(clear=0, partial=2, rejected={"structural": 1}, waited=0.2, delayed=0.0, written=0.5,
                   raw=raw, waw=waw, war=0.0)  # fmt: skip


def test_conflicts_are_shown_by_kind_with_the_reason_for_the_zeros() -> None:
    summary = headline(changed("quality", windows=compared(0.0, 0.12)))
    _, head, row = section(summary, "Rows in conflict")
    assert head.split() == ["arm", "label", "WAW", "RAW", "only", "WAR"]
    assert row.split() == ["quality", "padded", "12.0", "%", "0.0", "%", "0.0", "%"]
    assert "W⁺ = R⁺ in splatting" in summary.caption and "but for" not in summary.caption


def test_an_arm_with_a_tighter_write_scope_is_named() -> None:
    arms = ("barrier", "paper-literal")
    cells = [Result.done(cell(arm, 0, sequence=arms), measurement("barrier", windows=w), provenance())
             for arm, w in zip(arms, (compared(0.0, 0.1), compared(0.04, 0.1)), strict=True)]  # fmt: skip
    summary = headline(cells, arms)
    assert "but for paper-literal, whose W⁺ are the rows active at a view's last visit." in summary.caption
    assert section(summary, "Rows in conflict")[3].split()[4:6] == ["4.0", "%"]


def test_where_no_scopes_were_compared_nothing_is_said() -> None:
    summary = headline(sequence())
    assert not section(summary, "Rows in conflict") and "W⁺ = R⁺" not in summary.caption


# Audits --------------------------------------------------------------------------------------------------------------


def test_an_audit_is_what_is_computed_again_compared_and_agreed_on() -> None:
    assert audit_seconds(audited(0.25), ranks=2, steps=4) == pytest.approx((0.25 + 0.25 + 0.5) / 4)
    assert audit_seconds(frames.timeline(), ranks=2, steps=2) == 0.0


def test_audits_have_a_time_a_pixel_and_a_kind(tmp_path: Path) -> None:
    store, records = CellStore(tmp_path), changed("predicted", audits=AUDITS)
    for one in records:
        store.write_result(one)
        if one.cell.arm == "predicted":
            write_timeline(audited(0.25 + 0.5 * one.cell.repeat), store.path(one.cell_id) / TIMELINE)
    summary = headline_of(store, records)
    _, head, row = section(summary, "Audits")
    assert head.split() == ["arm", "label", "worst", "kind", "its", "error", "pixel", "(0…1)", "ms/step"]
    assert row.split() == ["predicted", "padded", "xyz", "9.0", "%", "0.0120", "375.00"]  # mean of 1.0 and 2.0 s ÷ 4
    (line,) = [x for x in section(summary, "Overlap windows") if x.startswith("predicted ")]
    assert line.split()[-4:] == ["%", "2,", "1", "failed"]


@pytest.mark.parametrize("torn", [False, True])
def test_a_timeline_that_is_missing_or_broken_is_a_reason(tmp_path: Path, torn: bool) -> None:
    store, records = CellStore(tmp_path), changed("predicted", audits=AUDITS)
    for one in records:
        store.write_result(one)
        if torn:
            (store.path(one.cell_id) / TIMELINE).write_bytes(b"PAR1")
    found = beside(store, records)
    assert set(found) == set(ARMS)
    assert str(found["predicted"].audit.reason).startswith("n/a: ")
    assert ("is not a usable timeline" if torn else "no timeline.parquet") in str(found["predicted"].audit.reason)
    assert found["quality"].audit.reason == "n/a: nothing was audited"  # and no timeline is looked for
    assert section(headline_of(store, records), "Audits")[2].split()[-1] == "n/a"


def test_records_alone_show_what_they_hold() -> None:
    """Exhibits have no files beside them."""
    summary = headline(changed("predicted", audits=AUDITS), SEQUENCE)
    assert section(summary, "Audits")[2].split()[-2:] == ["0.0120", "n/a"]
    assert "ms/step: n/a: only records were read (predicted)." in plain_text(summary)


def test_a_failed_arm_is_in_no_detail() -> None:
    cells = [r for r in changed("predicted", audits=AUDITS) if (r.cell.arm, r.cell.repeat) != ("predicted", 1)]
    assert not section(headline(cells), "Audits")


# Selective Adam ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("optimizer", "arms", "named"),
    [
        ("selective", ("barrier", "quality", "predicted"), "predicted"),
        ("selective", ("barrier", "throughput:reads=predicted", "hogwild"), "throughput:reads=predicted"),
        ("selective", ("barrier", "quality", "predicted:reads=stale"), ""),
        ("dense", ("barrier", "quality", "predicted"), ""),
    ],
)
def test_predicted_reads_under_selective_adam_are_stale(optimizer: str, arms: tuple[str, ...], named: str) -> None:
    cells = [optimized(arm, arms, optimizer) for arm in arms]
    lines = [line for line in headline(cells, arms).caption.splitlines() if "selective Adam" in line]
    assert len(lines) == bool(named)
    assert all(f"a predicted read of {named} equals a stale one." in line for line in lines)


def optimized(arm: str, arms: tuple[str, ...], optimizer: str) -> Result:
    """A cell of a pipeline with this optimizer."""
    usual = cell(arm, 0, sequence=arms)
    config = {**usual.config, "pipeline": {"name": "3dgs", "optimizer": optimizer}}
    kind = arm if arm in ARMS else "quality"
    return Result.done(cell(arm, 0, sequence=arms, config=config), measurement(kind), provenance())


# Width ---------------------------------------------------------------------------------------------------------------


def test_a_terminal_too_narrow_for_long_names_gets_plain_text(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    summary = headline_of(store, late_cells(store))
    narrow = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None)
    print_headline(summary, narrow)
    assert narrow.file.getvalue() == plain_text(summary)
    wide = Console(file=io.StringIO(), width=160, force_terminal=True, color_system=None)
    print_headline(summary, wide)
    assert "…" not in wide.file.getvalue().replace("(0…1)", "") and LATE in wide.file.getvalue()
