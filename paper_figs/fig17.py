"""Fig. 17: quality-first: which windows are rejected, what that leaves of the speedup; strict and row-wise."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from paper_figs.cells import Cells, over_seeds, place, source, speedups
from paper_figs.drawing import canvas, dots, in_style, legend_above, ratio_axis
from paper_figs.exhibit import Need, Study
from paper_figs.paper import stated
from paper_figs.tidy import Rows, evidence

name = "fig17"
title = "Fig. 17: Fallback of the quality-first path"
note = (
    "paper-quality waits for all of a step unless no row is in conflict, which is how we read §4.3; "
    "quality:groups=off waits for conflicting rows, quality for their column groups. Left: windows that did not open."
    " Right: throughput over barrier's. The paper's scenes are others: playroom 1.3 %, drjohnson 0.8 %, kitchen 98.6 "
    "% rejected at 1.00×."
)
needs: tuple[Need, ...] = (Study(role="fallback"),)
ARMS = ("paper-quality", "quality:groups=off", "quality")


def rows(cells: Cells) -> pd.DataFrame:
    """rejected, speedup, waited_rows (of opened windows) and wait per window (ms), per scene and arm."""
    found = Rows(name)
    for group in over_seeds(cells.pairs("fallback")):
        own = place(group)
        for arm in ARMS:
            runs = [run for pair in group if (run := pair.run(arm)) is not None and run.windows.total]
            rejected = [sum(run.windows.rejected.values()) / run.windows.total for run in runs]
            found.add_mean("rejected", rejected, arm=arm, unit="share", **own)
            waited = [run.windows.waited for run in runs if run.windows.waited is not None]
            found.add_mean("waited_rows", waited, arm=arm, unit="share", **own)
            waits = [1e3 * sum(run.breakdown.wait_by_rank) / run.ranks for run in runs]
            found.add_mean("wait_per_step", waits, arm=arm, unit="ms", **own)
            found.add_ratios("speedup", speedups(group, arm), arm=arm, unit="ratio", **own)
    strict = found.frame()
    every = strict[(strict["quantity"] == "speedup") & (strict["arm"] == "quality:groups=off")]
    pairs = cells.pairs("fallback")
    for quantity, value, high in (
        ("least_speedup", every["value"].min(), False),
        ("most_speedup", every["value"].max(), True),
    ):
        if len(every):
            paper = stated("Fig. 17", "speedup", scene="stress subset", high=high)
            found.add(quantity, value, arm="quality:groups=off", n=len(every), paper=paper, unit="ratio",
                      **source(pairs))  # fmt: skip
    return found.frame()


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """Rejections left, ratios right."""
    rejected, ratios = (rows[rows["quantity"] == q] for q in ("rejected", "speedup"))
    places = list(dict.fromkeys(rejected["scene"]))
    if not places:
        return None
    with canvas(0.5 * len(places) + 1.1, 2, sharey=True) as (figure, (left, right)):
        dots(left, rejected, "scene", places, scale=100.0)
        dots(right, ratios, "scene", places)
        left.set_xlim(-4, 104)
        ratio_axis(right.xaxis, right, ratios["value"])
        kind = evidence(rows)
        left.set_xlabel(f"windows rejected, % ({kind})")
        right.set_xlabel(f"throughput ÷ barrier ({kind})")
        legend_above(left, 3)
        return figure
