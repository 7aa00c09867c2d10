"""Making exhibits: rows, pictures, captions, LaTeX, and an index of what was made and what is missing.

Below the folder of records:

    figures/<name>.pdf, .png, _caption.txt    a picture and its caption
    figures/<name>.csv, .tex                  its tidy rows, and as a table
    figures/exhibits.json                     for the report: every exhibit, made or with the command that makes it; its
                                              caption names every failure of the exhibit's pairs
    summary.csv                               the rows of all exhibits
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from harness.plan.drawing import save
from harness.report.exhibits import INDEX, Shown
from harness.store.files import write_text
from paper_figs.caption import caption
from paper_figs.cells import Cells
from paper_figs.exhibit import Exhibit, command_for, missing
from paper_figs.latex import latex_table
from paper_figs.tidy import Rows, number, shown, table_of, write_rows

SUMMARY = "summary.csv"
MOST_TOLD = 5  # numbers in the text that stands in place of a picture
NOTHING_IN_CELLS = "its cells are there, but none passed its gates, or their timelines are not here"


def make(exhibit: Exhibit, cells: Cells, folder: Path) -> tuple[Shown, pd.DataFrame]:
    """Write an exhibit's files, or say what it lacks; its rows, of which there are none then. Raises RunError."""
    lacking = missing(exhibit, cells)
    command = command_for(exhibit.needs, cells.scale, cells.root)
    common: dict[str, Any] = {"name": exhibit.name, "title": exhibit.title, "command": command}
    if lacking:
        reason = f"missing: {', '.join(need.text() for need in lacking)}"
        return Shown(**common, missing=reason), Rows(exhibit.name).frame()
    frame = exhibit.rows(cells)
    if frame.empty:
        return Shown(**common, missing=NOTHING_IN_CELLS), frame
    text = caption(exhibit, frame, cells)
    write_rows(frame, folder / f"{exhibit.name}.csv")
    write_text(folder / f"{exhibit.name}.tex", latex_table(frame, exhibit.name, text, exhibit.title))
    figure = exhibit.draw(cells, frame)
    if figure is None:
        write_text(folder / f"{exhibit.name}_caption.txt", text + "\n")
    else:
        save(figure, folder, exhibit.name, text)
    table = table_of(frame)
    verdicts = getattr(exhibit, "verdicts", None)
    return Shown(
        **common,
        caption=caption(exhibit, frame, cells, whole=True),
        alt=alternative(exhibit, frame),
        picture=None if figure is None else f"{exhibit.name}.png",
        columns=tuple(table.columns),
        rows=tuple(tuple(row) for row in table.itertuples(index=False)),
        verdicts=tuple(verdicts(frame)) if verdicts is not None else (),
    ), frame


def make_all(chosen: Sequence[Exhibit], cells: Cells, *, whole: bool) -> list[Shown]:
    """Make exhibits and write the index; summary.csv too where all were asked for (`whole`). Raises RunError."""
    folder = cells.root / "figures"
    made = [make(exhibit, cells, folder) for exhibit in chosen]
    index = [one for one, _ in made]
    kept = {} if whole else {one.name: one for one in Shown.load(folder / INDEX)}
    merged = kept | {one.name: one for one in index}
    write_text(
        folder / INDEX, json.dumps([one.plain() for one in merged.values()], ensure_ascii=False, indent=1) + "\n"
    )
    if whole:
        write_rows(pd.concat([frame for _, frame in made], ignore_index=True), cells.root / SUMMARY)
    return index


def alternative(exhibit: Exhibit, frame: pd.DataFrame) -> str:
    """Text in place of a picture: what it is, and means over all, or means, or numbers; those that the paper states
    too come first."""
    means = frame[frame["quantity"].str.startswith("mean_")]
    overall = means[(means["pipeline"] == "") & (means["scene"] == "")]
    chosen = next((some for some in (overall, means) if len(some)), frame)
    told = chosen.sort_values("paper", key=pd.isna, kind="stable").head(MOST_TOLD)
    return f"{exhibit.title}: {'; '.join(map(_told, told.to_dict('records')))}."


def _told(row: dict[Any, Any]) -> str:
    """A row in words: "mean speedup throughput 1.269× (virtual, n = 6; the paper: 1.220×)"."""
    names = (str(row["quantity"]).replace("_", " "), row["scene"], row["pipeline"], row["arm"])
    beside = number(row["paper"], row["unit"])
    evidence = f"{row['label']}, n = {row['n']}{f'; the paper: {beside}' if beside else ''}"
    return f"{' '.join(name for name in names if name)} {shown(row)} ({evidence})"
