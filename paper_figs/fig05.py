"""Fig. 5: the locality graph of four views by what it is built from."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.plan.drawing import colour
from paper_figs.cells import Cells
from paper_figs.drawing import canvas, in_style
from paper_figs.exhibit import Need, Table
from paper_figs.tidy import Rows

name = "fig5"
title = "Fig. 5: The relative locality graph by what it is built from"
note = (
    "Four training views of one model (two that share most tracks, the one that shares least with both, and its own "
    "nearest). Numbers and line widths are Jaccard similarities of what two views have in common: nothing is known "
    "(none: every pair has to be taken as coupled), conservative scopes (geometry), rows with a gradient "
    "(computation), rows with a large one (importance), tracks from structure from motion, by which Odin plans. Below "
    "each: the share of all pairs of training views that are coupled, and their mean weight. Only tracks are known "
    "before the model is."
)
needs: tuple[Need, ...] = (Table(name="locality_graphs"),)
PANELS = {"none": "7", "geometry": "5", "computation": "0", "importance": "4", "tracks": "2"}
CORNERS = {1: (0.0, 1.0), 2: (1.0, 1.0), 3: (0.0, 0.0), 4: (1.0, 0.0)}
# Where an edge's number stands, from its first view to its second: the diagonals' must not meet in the middle.
AT = {(1, 4): 0.3, (2, 3): 0.3}


def rows(cells: Cells) -> pd.DataFrame:
    """coupling of each pair of the example by graph; mean_coupling and coupled_pairs over all pairs of views."""
    found, table = Rows(name), cells.table("locality_graphs")
    if table is None:
        return found.frame()
    own = cells.table_source("locality_graphs", "computed")
    for row in table.to_dict("records"):
        place = f"{row['scene']}, views {row['first']} and {row['second']}"
        found.add("coupling", row["weight"], scene=place, arm=row["graph"], **own)
    for row in table.drop_duplicates("graph").to_dict("records"):
        common = {"scene": row["scene"], "arm": row["graph"], "n": row["pairs"], **own}
        found.add("mean_coupling", row["mean"], **common)
        found.add("coupled_pairs", row["coupled"], unit="share", **common)
    return found.frame()


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """A panel per graph, four nodes each."""
    table = cells.table("locality_graphs")
    if table is None:
        return None
    with canvas(2.0, len(PANELS)) as (figure, panels):
        for axes, (graph, shade) in zip(panels, PANELS.items(), strict=True):
            own = table[table["graph"] == graph]
            _panel(axes, own, colour(int(shade)))
            said = f"{100 * own['coupled'].iloc[0]:.0f} % coupled\nmean {own['mean'].iloc[0]:.3f}" if len(own) else ""
            axes.set_title(graph, fontsize=8)
            axes.set_xlabel(said or "no graph:\nall may conflict", fontsize=7)
        figure.supxlabel("similarity of two views (computed)", fontsize=8)
        return figure


def _panel(axes: Axes, table: pd.DataFrame, shade: str) -> None:
    for row in table[table["weight"] > 0].to_dict("records"):
        (x1, y1), (x2, y2) = CORNERS[row["first"]], CORNERS[row["second"]]
        axes.plot([x1, x2], [y1, y2], "-", color=shade, lw=0.6 + 6 * row["weight"], alpha=0.8, zorder=1,
                  solid_capstyle="round")  # fmt: skip
        at = AT.get((row["first"], row["second"]), 0.5)
        axes.text(x1 + at * (x2 - x1), y1 + at * (y2 - y1), _short(row["weight"]), fontsize=6, ha="center",
                  va="center", zorder=2, bbox={"fc": "white", "ec": "none", "pad": 0.4, "alpha": 0.9})  # fmt: skip
    for number, (x, y) in CORNERS.items():
        axes.plot(x, y, "o", ms=13, mfc="white", mec="0.3", zorder=3)
        axes.text(x, y, str(number), fontsize=7, ha="center", va="center_baseline", zorder=4)
    axes.set_xlim(-0.25, 1.25)
    axes.set_ylim(-0.25, 1.25)
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)


def _short(weight: float) -> str:
    """Two digits, and no zero for what is not."""
    return f"{weight:.2f}" if weight >= 0.01 else "<.01"
