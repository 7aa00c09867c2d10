"""`odin-bench timeline`: which rank does what when, and where ranks idle, from the timelines of recorded cells.

Two pictures: ranks × phases over a few steps, one panel per cell on one time axis; and what the paper's Fig. 1 and 19
show, the idle share of every rank and the parts of a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd

from harness.measure.timeline import read_steps, read_timeline
from harness.report.caption import MEANING, idle_line
from harness.report.figure import STYLE
from harness.report.gantt import NOTE as GANTT_NOTE
from harness.report.gantt import Panel, draw_gantt
from harness.report.headline import sequences
from harness.report.idle import NOTE as IDLE_NOTE
from harness.report.idle import draw_idle
from harness.store.files import replacing, write_text
from harness.store.schema import Measurement, Result
from harness.store.store import RESULT, STEPS, TIMELINE, TRACE, CellStore, load_result
from odin.errors import InputError
from odin.phases import Phase

SHOWN_STEPS = 3


@dataclass(frozen=True, kw_only=True)
class RecordedCell:
    """A finished cell and its two frames."""

    folder: Path
    result: Result
    measurement: Measurement
    timeline: pd.DataFrame
    steps: pd.DataFrame


def timeline_report(folders: Sequence[Path], *, out: Path | None = None, first: int | None = None) -> list[Path]:
    """Draw the pictures of some cells and return the files written.

    folders: of cells (`runs/cells/<id>`), or one folder of records with one sequence: then the first run of each arm
    out:     where pictures go; None: `report/timeline-<id of the first cell>` beside the cells
    first:   first of the three steps that are shown; None: three in the second half without event or audit

    Raises InputError where a folder holds no finished cell, or cells have no such steps in common.
    """
    cells = [_read(folder) for folder in _cells(folders)]
    start = _first_step(cells) if first is None else first
    shown = range(start, start + SHOWN_STEPS)
    panels = [_panel(cell, shown) for cell in cells]
    folder = out or cells[0].folder.parent.parent / "report" / f"timeline-{cells[0].result.cell_id}"
    caption = _caption(cells, shown)
    written = []
    for stem, figure, note in (
        ("timeline", draw_gantt(panels), GANTT_NOTE),
        ("idle", draw_idle([(_name(cell), cell.measurement.breakdown) for cell in cells], _label(cells)), IDLE_NOTE),
    ):
        for kind, more in (("pdf", {"metadata": {"CreationDate": None}}), ("png", {"dpi": 200})):
            written.append(folder / f"{stem}.{kind}")
            with mpl.rc_context(STYLE), replacing(written[-1]) as temporary:
                figure.savefig(temporary, format=kind, **more)
        written.append(folder / f"{stem}_caption.txt")
        write_text(written[-1], f"{note}\n{caption}\n")
    return written


def print_timeline(folders: Sequence[Path], *, out: Path | None, first: int | None) -> int:
    """`timeline_report` and a line per file; the last ones name the traces for Perfetto."""
    for path in timeline_report(folders, out=out, first=first):
        print(path)
    for folder in _cells(folders):
        print(f"{folder / TRACE} (opens in https://ui.perfetto.dev)")
    return 0


def _cells(folders: Sequence[Path]) -> list[Path]:
    if len(folders) != 1 or (folders[0] / RESULT).exists():
        return list(folders)
    store = CellStore(folders[0], create=False)
    groups = list(sequences(store.results()).values())
    if len(groups) != 1:
        raise InputError(
            f"{folders[0]} holds {len(groups)} sequences of cells; pictures compare cells of one. Name the folders of "
            f"its cells instead, as in {folders[0] / 'cells'}/<id>."
        )
    order = groups[0][0].cell.sequence
    first_runs = [r for r in groups[0] if r.cell.repeat == 0]
    return [store.path(r.cell_id) for r in sorted(first_runs, key=lambda r: order.index(r.cell.arm))]


def _read(folder: Path) -> RecordedCell:
    if not (folder / RESULT).exists():
        raise InputError(
            f"{folder} is not the folder of a finished cell: it holds no {RESULT}. They are in runs/cells/."
        )
    result = load_result(folder / RESULT)
    if result.measurement is None:
        raise InputError(f"The cell in {folder} is {result.status.value} and has no timeline: {result.reason}")
    return RecordedCell(
        folder=folder,
        result=result,
        measurement=result.measurement,
        timeline=read_timeline(folder / TIMELINE),
        steps=read_steps(folder / STEPS),
    )


def _first_step(cells: Sequence[RecordedCell]) -> int:
    """The first of three steps of the second half near which there is no structural event and no audit."""
    counts = {cell.measurement.steps for cell in cells}
    if len(counts) != 1 or min(counts) < SHOWN_STEPS:
        raise InputError(f"Pictures show {SHOWN_STEPS} steps of cells of one length; these have {sorted(counts)}.")
    steps = counts.pop()
    closed = np.zeros(steps + 1, np.bool_)
    for cell in cells:
        closed[:-1] |= cell.steps.groupby("step")["structural"].first().sort_index().to_numpy()
        closed[np.unique(cell.timeline.loc[cell.timeline["name"] == Phase.AUDIT.value, "step"])] = True
    middle = min(steps // 2, steps - SHOWN_STEPS)
    quiet = [s for s in range(max(middle, 1), steps - SHOWN_STEPS) if not closed[s - 1 : s + SHOWN_STEPS].any()]
    return quiet[0] if quiet else middle


def _panel(cell: RecordedCell, shown: range) -> Panel:
    rows = cell.steps[cell.steps["step"].isin(shown)]
    if rows["step"].nunique() != len(shown):
        raise InputError(
            f"{cell.folder} has no steps {shown.start} to {shown.stop - 1}; it has {cell.measurement.steps}."
        )
    return Panel(
        name=_name(cell),
        ranks=cell.measurement.ranks,
        timeline=cell.timeline,
        start=float(rows["start"].min()),
        ends=tuple(float(end) for end in rows.groupby("step")["end"].max().sort_index()),
        first=shown.start,
        label=cell.result.cell.label.value,
    )


def _name(cell: RecordedCell) -> str:
    repeat = cell.result.cell.repeat
    return cell.result.cell.arm + (f" #{repeat + 1}" if repeat else "")


def _label(cells: Sequence[RecordedCell]) -> str:
    return " / ".join(sorted({cell.result.cell.label.value for cell in cells}))


def _caption(cells: Sequence[RecordedCell], shown: range) -> str:
    result, m = cells[0].result, cells[0].measurement
    meanings = [f"{label.value}: {MEANING[label]}" for label in sorted({c.result.cell.label for c in cells})]
    link = f"link {m.link.name}, {m.link.beta / 1e6:.4g} MB/s" if m.link is not None else "no emulated link"
    timed = [_name(c) for c in cells if c.measurement.retimed_from is not None]
    lines = [
        f"Scene {result.cell.scene}, {m.ranks} ranks, {m.global_batch} images per step, {m.steps} steps, {link}; "
        f"steps {shown.start} to {shown.stop - 1} shown in the timeline, all steps in the means.",
        f"Evidence label: {'; '.join(meanings)}.",
        idle_line([(_name(cell), cell.measurement.breakdown) for cell in cells]),
        *([f"Re-timed from a cell that trains the same bits: {', '.join(timed)}."] if timed else []),
        f"Commit {', '.join(sorted({c.result.provenance.git_sha[:12] for c in cells}))}.",
    ]
    return "\n".join(lines)
