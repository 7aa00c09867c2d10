"""Fig. 6: the schedule as it ran, ranks × phases: a barrier, and Odin's arms on the same ranks."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from harness.report.gantt import NOTE, Panel, draw_gantt
from paper_figs.cells import Cells, Pair, place
from paper_figs.exhibit import Need, Study
from paper_figs.tidy import Rows

name = "fig6"
title = "Fig. 6: The schedule before and after, as recorded"
note = f"{NOTE} The paper's figure is a drawing; this is a recorded timeline."
needs: tuple[Need, ...] = (Study(role="timeline"),)
ARMS = ("barrier", "quality", "predicted")
SHOWN = 3  # steps


def rows(cells: Cells) -> pd.DataFrame:
    """step time of each arm (ms)."""
    found = Rows(name)
    for pair in cells.pairs("timeline")[:1]:
        own = place([pair])
        for arm in ARMS:
            run = pair.run(arm)
            found.add("step", None if run is None else 1e3 * run.breakdown.step, arm=arm, unit="ms", **own)
    return found.frame()


def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """A panel per arm on one time axis."""
    pair = next(iter(cells.pairs("timeline")), None)
    panels = [panel for arm in ARMS if pair is not None and (panel := _panel(pair, arm)) is not None]
    return draw_gantt(panels) if panels else None


def _panel(pair: Pair, arm: str) -> Panel | None:
    frames, run = pair.frames(arm), pair.run(arm)
    if frames is None or run is None or run.steps <= SHOWN:
        return None
    timeline, steps = frames
    first = run.steps // 2 if run.steps // 2 + SHOWN <= run.steps else run.steps - SHOWN
    rows = steps[steps["step"].isin(range(first, first + SHOWN))]
    ends = rows.groupby("step")["end"].max().sort_index()
    return Panel(name=arm, ranks=run.ranks, timeline=timeline, start=float(rows["start"].min()),
                 ends=tuple(float(end) for end in ends), first=first, label=pair.label)  # fmt: skip
