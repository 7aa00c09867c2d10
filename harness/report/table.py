"""The headline as a table: rich on a terminal, plain text in a log, Markdown and CSV in files."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.report.reduction import EXACT_REFERENCE
from harness.report.summary import BASELINE, Headline, Numbers, Row
from harness.store.files import write_text
from harness.store.record import Reading
from odin.arms import arm as arm_named

FAILED = "FAILED"
_CSV_FORM = ".12g"  # all digits that a clock has, none that depend on the order of a sum
NARROWEST = 80  # columns that the widest table of arms without switches needs; rich would cut numbers off


@dataclass(frozen=True, kw_only=True)
class Column:
    """One quantity of a row. key: its name in a CSV, which has the bare number; the rest: how a table prints it.

    A `z` in `form` prints what rounds to zero without a minus sign.
    """

    key: str
    title: str
    of: Callable[[Numbers], float | str | Reading]
    form: str = ".2f"
    scale: float = 1.0
    unit: str = ""


def _milliseconds(key: str, title: str, of: Callable[[Numbers], float]) -> Column:
    return Column(key=f"{key}_seconds", title=title, of=of, scale=1e3, form="z.1f")


def _percent(key: str, title: str, of: Callable[[Numbers], Reading]) -> Column:
    return Column(key=f"{key}_share", title=title, of=of, scale=100.0, form="z.1f", unit=" %")


def _jittered(numbers: Numbers, of: Callable[[Sequence[float]], float]) -> Reading:
    return Reading.of(of(numbers.jittered)) if numbers.jittered else Reading.absent("n/a: not re-timed")


WINDOWS = "Overlap windows (shares of the table's rows are means over opened windows)"
SECTIONS: dict[str, tuple[Column, ...]] = {
    "Throughput": (
        Column(key="speedup", title="speedup", of=lambda n: n.speedup, form=".3f", unit="×"),
        _percent("noise", "noise", lambda n: n.noise),
        _milliseconds("step", "ms/step", lambda n: n.seconds),
        Column(key="images_per_second", title="img/s", of=lambda n: n.images_per_second),
        _percent("exposed", "exposed", lambda n: n.against.exposed),
        _percent("hidden", "hidden", lambda n: n.against.hidden),
        _percent("hidden_transfer", "hidden-tr.", lambda n: n.against.hidden_transfer),
    ),
    "Where a step goes (ms)": (
        _milliseconds("useful", "useful", lambda n: n.parts.useful),
        _milliseconds("lost", "lost", lambda n: n.parts.lost),
        _milliseconds("transfer", "transfer", lambda n: n.parts.transfer),
        _milliseconds("skew", "skew", lambda n: n.parts.skew),
        _milliseconds("odin", "odin", lambda n: n.parts.odin),
        _milliseconds("structural", "struct.", lambda n: n.parts.structural),
        _milliseconds("other", "other", lambda n: n.parts.other),
    ),
    WINDOWS: (
        _percent("opened", "opened", lambda n: n.opened),
        _percent("waited", "waited", lambda n: n.waited),
        _percent("delayed", "delayed", lambda n: n.delayed),
        _percent("written", "W⁺", lambda n: n.written),
        _percent("audit_error", "audit error", lambda n: n.audit_error),
        Column(key="audits", title="audits", of=lambda n: n.audits),
    ),
    "Test quality (PSNR in dB)": (
        Column(key="psnr_initial_db", title="start dB", of=lambda n: n.psnr_initial),
        Column(key="psnr_final_db", title="final dB", of=lambda n: n.psnr_final),
        Column(key="psnr_delta_db", title="Δ dB", of=lambda n: n.delta, form="+z.3f"),
        Column(key="ssim", title="SSIM", of=lambda n: n.ssim, form=".4f"),
        Column(key="lpips", title="LPIPS", of=lambda n: n.lpips, form=".4f"),
        Column(key="exact", title="exact", of=lambda n: n.exact),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Detail:
    """A table of those arms only that `has` such numbers, below that of windows; left out where there is none."""

    title: str
    columns: tuple[Column, ...]
    has: Callable[[str, Numbers], bool]


DETAILS = (
    Detail(
        title="Speedup where every phase varies (re-timings; the caption says by how much)",
        columns=(
            Column(key="jittered_mean", title="mean", of=lambda n: _jittered(n, fmean), form=".3f", unit="×"),
            Column(key="jittered_low", title="smallest", of=lambda n: _jittered(n, min), form=".3f", unit="×"),
            Column(key="jittered_high", title="largest", of=lambda n: _jittered(n, max), form=".3f", unit="×"),
        ),
        has=lambda _, n: bool(n.jittered),
    ),
    Detail(
        title="Rows in conflict (mean shares of the table's rows over windows whose scopes were compared)",
        columns=(
            _percent("waw", "WAW", lambda n: n.waw),
            _percent("raw", "RAW only", lambda n: n.raw),
            _percent("war", "WAR", lambda n: n.war),
        ),
        has=lambda _, n: n.waw.value is not None,
    ),
    Detail(
        title="Rows read late: half of them, and 95 %, lie below (octaves; norms ÷ active mean, update ÷ lr)",
        columns=(
            Column(key="late_rows", title="n rows", of=lambda n: n.late.rows, form=",.0f"),
            Column(key="late_local_median", title="local 50 %", of=lambda n: n.late.local.median, form=".3g"),
            Column(key="late_local_p95", title="local 95 %", of=lambda n: n.late.local.high, form=".3g"),
            Column(key="late_reduced_median", title="reduced 50 %", of=lambda n: n.late.reduced.median, form=".3g"),
            Column(key="late_reduced_p95", title="reduced 95 %", of=lambda n: n.late.reduced.high, form=".3g"),
            Column(key="late_update_median", title="update 50 %", of=lambda n: n.late.update.median, form=".3g"),
            Column(key="late_update_p95", title="update 95 %", of=lambda n: n.late.update.high, form=".3g"),
        ),
        has=lambda arm, _: arm_named(arm).histograms,
    ),
    Detail(
        title="Audits (worst of the run; time: recomputing and comparing, mean over ranks and steps)",
        columns=(
            Column(key="audit_kind", title="worst kind", of=lambda n: n.worst_kind),
            _percent("audit_kind_error", "its error", lambda n: n.kind_error),
            Column(key="audit_pixel", title="pixel (0…1)", of=lambda n: n.pixel, form=".4f"),
            Column(key="audit_seconds", title="ms/step", of=lambda n: n.audit_seconds, scale=1e3, form=".2f"),
        ),
        has=lambda _, n: n.pixel.value is not None,
    ),
)
# What the schedule alone brings: the arms of `Headline.same_order`, ratios against `barrier-planned`.
SAME_ORDER = "Against barrier-planned: the same views in the same order"
SAME_ORDER_COLUMNS = (
    Column(key="speedup", title="speedup", of=lambda n: n.speedup, form=".3f", unit="×"),
    _percent("exposed", "exposed", lambda n: n.against.exposed),
    _percent("hidden", "hidden", lambda n: n.against.hidden),
    _percent("hidden_transfer", "hidden-tr.", lambda n: n.against.hidden_transfer),
    Column(key="psnr_delta_db", title="Δ dB", of=lambda n: n.delta, form="+z.3f"),
    Column(key="exact", title="exact", of=lambda n: n.exact),
)
# The headline ratio where the other synchronized baseline is faster than `barrier` (D§6 Arms).
OVER_RIVAL = Column(key="speedup_over_ddp", title="÷ ddp", of=lambda n: n.over_rival, form=".3f", unit="×")
LEAD = ("arm", "label")

Block = tuple[str, tuple[Column, ...], tuple[Row, ...]]


def blocks(result: Headline) -> list[Block]:
    """What is printed, in order: title, columns, rows."""
    found = _against_barrier(result)
    if result.same_order:
        found.insert(1, (SAME_ORDER, SAME_ORDER_COLUMNS, result.same_order))
    return found


def _against_barrier(result: Headline) -> list[Block]:
    found: list[Block] = []
    for title, columns in SECTIONS.items():
        leads = not found and result.rival is not None and result.rival.leads
        found.append((title, (columns[0], OVER_RIVAL, *columns[1:]) if leads else columns, result.rows))
        if title == WINDOWS:
            found += _details(result)
    return found


def _details(result: Headline) -> list[Block]:
    shown = [(d, tuple(r for r in result.rows if r.numbers and d.has(r.arm, r.numbers))) for d in DETAILS]
    return [(detail.title, detail.columns, rows) for detail, rows in shown if rows]


def print_headline(result: Headline, console: Console | None = None) -> None:
    """To a terminal as rich tables, to anything else or a narrow one as plain text, which loses no digit."""
    console = console or Console()
    if not console.is_terminal or console.width < max(NARROWEST, _width(result)):
        console.file.write(plain_text(result))
        return
    for title, columns, rows in blocks(result):
        table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0), pad_edge=False)
        for index, name in enumerate([*LEAD, *(c.title for c in columns)]):
            table.add_column(name, justify="left" if index < len(LEAD) else "right", no_wrap=True)
        for row in rows:
            style = "" if row.numbers else "red"
            table.add_row(*(Text(cell, style=style) for cell in _cells(row, columns)))
        console.print(table)
        console.print()
    console.print(Text("\n".join(_notes(result))))


def plain_text(result: Headline) -> str:
    """Aligned columns, then failures, the reasons of absent numbers and the caption."""
    texts = ["\n".join([title, *_lines(columns, rows)]) for title, columns, rows in blocks(result)]
    return "\n\n".join([*texts, "\n".join(_notes(result))]) + "\n"


def markdown(result: Headline) -> str:
    """The tables, failures and the caption."""
    texts = []
    for title, columns, rows in blocks(result):
        head = [*LEAD, *(c.title for c in columns)]
        rule = ["---"] * len(LEAD) + ["---:"] * len(columns)
        lines = [head, rule, *(_cells(row, columns) for row in rows)]
        texts.append(f"**{title}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join([*texts, "  \n".join("\n".join(_notes(result)).splitlines())]) + "\n"


def csv_text(result: Headline) -> str:
    """One line per arm and baseline with bare numbers (s, shares, dB); an absent one is its reason."""
    columns = list(_every_column())
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*LEAD, "baseline", "status", "reason", *(c.key for c in columns)])
    for baseline, rows in ((BASELINE, result.rows), (EXACT_REFERENCE, result.same_order)):
        for row in rows:
            status = "ok" if row.numbers else FAILED
            values = [_bare(c.of(row.numbers)) if row.numbers else "" for c in columns]
            writer.writerow([row.arm, row.label, baseline, status, row.failure, *values])
    return out.getvalue()


def write_tables(result: Headline, folder: Path) -> list[Path]:
    """headline.md, headline.csv and headline.txt in the folder. Raises RunError when the disk refuses."""
    writers = {"headline.md": markdown, "headline.csv": csv_text, "headline.txt": plain_text}
    for name, text_of in writers.items():
        write_text(folder / name, text_of(result))
    return [folder / name for name in writers]


def _cells(row: Row, columns: Sequence[Column]) -> list[str]:
    if row.numbers is None:
        return [row.arm, row.label, FAILED, *("" for _ in columns[1:])]
    return [row.arm, row.label, *(_shown(column, row.numbers) for column in columns)]


def _shown(column: Column, numbers: Numbers) -> str:
    value = column.of(numbers)
    if isinstance(value, Reading):
        return value.text(column.form, column.scale, column.unit).split(":")[0]
    if isinstance(value, str):
        return value.split(":")[0]
    return f"{value * column.scale:{column.form}}{column.unit}"


def _bare(value: float | str | Reading) -> str:
    if isinstance(value, Reading):
        return value.text(_CSV_FORM)
    return value if isinstance(value, str) else format(value, _CSV_FORM)


def _every_column() -> Iterator[Column]:
    """What a table may print, in the order in which it would."""
    for title, columns in SECTIONS.items():
        for column in columns:
            yield column
            if column.key == "speedup":
                yield OVER_RIVAL
        if title == WINDOWS:
            yield from (column for detail in DETAILS for column in detail.columns)


def _lines(columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
    """A table as aligned text, its head first."""
    lines = [[*LEAD, *(c.title for c in columns)], *(_cells(row, columns) for row in rows)]
    width = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    return ["  ".join(_aligned(line, width)).rstrip() for line in lines]


def _width(result: Headline) -> int:
    """Characters of the widest table as text; rich needs no more."""
    return max(len(line) for _, columns, rows in blocks(result) for line in _lines(columns, rows))


def _aligned(line: Sequence[str], width: Sequence[int]) -> list[str]:
    pairs = enumerate(zip(line, width, strict=True))
    return [text.ljust(w) if k < len(LEAD) else text.rjust(w) for k, (text, w) in pairs]


def _notes(result: Headline) -> list[str]:
    return [*failed_lines(result), *_reasons(result), result.caption]


def failed_lines(result: Headline) -> list[str]:
    """One sentence for every arm that failed: which gate, and why. An arm that fails against its own order of views too
    is said twice only where the reasons differ."""
    lines = [f"{FAILED} {row.arm}: {row.failure}." for row in result.rows if row.numbers is None]
    known = {row.arm: row.failure for row in result.rows}
    return lines + [
        f"{FAILED} {row.arm} against {EXACT_REFERENCE}: {row.failure}."
        for row in result.same_order
        if row.numbers is None and row.failure != known[row.arm]
    ]


def _reasons(result: Headline) -> list[str]:
    """Why numbers are absent, once per reason and the columns and arms that share it."""
    lacking: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for _, columns, rows in _against_barrier(result):
        shown = [(row.arm, row.numbers) for row in rows if row.numbers is not None]
        for (arm, numbers), column in itertools.product(shown, columns):
            value = column.of(numbers)
            reason = value.reason if isinstance(value, Reading) else None
            if reason:
                titles, arms = lacking.setdefault(reason, ({}, {}))
                titles[column.title], arms[arm] = None, None
    return [f"{', '.join(titles)}: {reason} ({', '.join(arms)})." for reason, (titles, arms) in lacking.items()]
