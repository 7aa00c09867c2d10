"""Fig. 11: mixed parallelism over the number of ranks, with and without Odin, against one rank."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from paper_figs import scaling
from paper_figs.cells import Cells
from paper_figs.drawing import arm_style, in_style, legend_above, sheet
from paper_figs.exhibit import Need, Study
from paper_figs.tidy import Rows, evidence

name = "fig11"
title = "Fig. 11: Mixed-parallel scaling"
note = (
    "Images per second of sharded primitives over those of 3DGS on one rank, a panel per scene; the dashed line is "
    "ideal scaling. A rank trains as many views per step whatever their number, so B grows with the ranks."
)
needs: tuple[Need, ...] = (Study(role=scaling.ROLE),)
REGIMES = [key for key in scaling.REGIMES if key[0] == scaling.SHARDED]


def rows(cells: Cells) -> pd.DataFrame:
    """speedup_over_one_rank of each regime; the scene names the ranks."""
    if not scaling.reference(cells):
        return Rows(name).frame()
    return scaling.over_one_rank(name, cells, REGIMES, {})


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """A panel per scene."""
    if rows.empty:
        return None
    parts = rows["scene"].str.extract(r"^(?P<capture>.*), W = (?P<ranks>\d+)$")
    sized = rows.assign(capture=parts["capture"], ranks=parts["ranks"].astype(int)).sort_values("ranks")
    captures = list(dict.fromkeys(sized["capture"]))
    with sheet(2.7, 1, len(captures), sharey=True) as (figure, grid):
        for axes, capture in zip(grid[0], captures, strict=True):
            own = sized[sized["capture"] == capture]
            counts = sorted(set(own["ranks"]))
            axes.plot([1, *counts], [1, *counts], "--", color="0.4", lw=0.8, label="ideal")
            for key in REGIMES:
                line = own[own["arm"] == scaling.REGIMES[key]]
                axes.plot(line["ranks"], line["value"], "-", ms=5, label=scaling.REGIMES[key], **arm_style(key[1]))
            axes.set_xscale("log", base=2)
            axes.set_yscale("log", base=2)
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(FixedLocator([1, *counts]))
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
                axis.set_minor_locator(NullLocator())
            axes.set_xlabel(f"ranks ({capture.partition('-')[0]})")
        grid[0][0].set_ylabel(f"throughput ÷ one rank ({evidence(rows)})")
        legend_above(grid[0][0], 2)
        return figure
