"""Fig. 11: mixed parallelism over the number of ranks, with and without Odin, against one rank."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from paper_figs import scaling
from paper_figs.cells import Cells, Pair
from paper_figs.drawing import arm_style, failed_legend, failed_mark, in_style, legend_outside, sheet
from paper_figs.exhibit import Need, Study
from paper_figs.tidy import evidence

name = "fig11"
title = "Fig. 11: Mixed-parallel scaling"
note = (
    "Images per second of sharded primitives over those of 3DGS on one rank, a panel per scene; the dashed line is "
    "ideal scaling, and marks of one number of ranks stand side by side; a cross at the axis: the arm failed a gate at "
    "that number of ranks. A rank trains as many views per step whatever their number, so B grows with the ranks."
)
needs: tuple[Need, ...] = (Study(role=scaling.ROLE),)
ARMS = scaling.ARMS
REGIMES = [key for key in scaling.REGIMES if key[0] == scaling.SHARDED]
DASHES = {"quality-random": "--", "predicted-random": "--"}


def used(cells: Cells) -> list[Pair]:
    """Those of shards, and 3DGS on one rank."""
    return [pair for pair in cells.pairs(scaling.ROLE) if pair.pipeline == scaling.SHARDED or pair.ranks == 1]


def rows(cells: Cells) -> pd.DataFrame:
    """speedup_over_one_rank of each regime; the scene names the ranks."""
    return scaling.over_one_rank(name, used(cells), scaling.reference(cells), REGIMES, {})


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """A panel per scene."""
    if rows.empty:
        return None
    parts = rows["scene"].str.extract(r"^(?P<capture>.*), W = (?P<ranks>\d+)$")
    sized = rows.assign(capture=parts["capture"], ranks=parts["ranks"].astype(int)).sort_values("ranks")
    captures = list(dict.fromkeys(sized["capture"]))
    lost = scaling.lost(used(cells), REGIMES)
    with sheet(3.0, 1, len(captures), sharey=True) as (figure, grid):
        for axes, capture in zip(grid[0], captures, strict=True):
            own = sized[sized["capture"] == capture]
            counts = sorted({*own["ranks"], *(pair.ranks for pair, _ in lost if pair.scene == capture)})
            axes.plot([1, *counts], [1, *counts], "--", color="0.4", lw=0.8, label="ideal")
            for key in REGIMES:
                line = own[own["arm"] == scaling.REGIMES[key]]
                axes.plot(line["ranks"] * _beside(key[1]), line["value"], ls=DASHES.get(key[1], "-"), ms=4.5, lw=1.2,
                          label=scaling.REGIMES[key], **arm_style(key[1]))  # fmt: skip
            for pair, (_, arm) in (one for one in lost if one[0].scene == capture):
                failed_mark(axes, pair.ranks * _beside(arm), 0.02, arm, transform=axes.get_xaxis_transform())
            axes.set_xscale("log", base=2)
            axes.set_yscale("log", base=2)
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(FixedLocator([1, *counts]))
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
                axis.set_minor_locator(NullLocator())
            axes.set_xlabel(f"ranks ({capture.partition('-')[0]})")
        grid[0][0].set_ylabel(f"speedup over one rank ({evidence(rows)})")
        legend_outside(figure, grid[0], 3, extra=failed_legend() if lost else None)
        return figure


def _beside(arm: str) -> float:
    """Factor on the ranks by which marks of arms that are equally fast stand apart."""
    return float(1.035 ** (scaling.ARMS.index(arm) - (len(scaling.ARMS) - 1) / 2))
