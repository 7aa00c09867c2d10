"""Fig. 3: share of the primitives that a view keeps by geometry, computation and importance locality."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.plan.drawing import colour
from paper_figs.cells import Cells
from paper_figs.drawing import canvas, in_style, legend_outside, short
from paper_figs.exhibit import Need, Table
from paper_figs.paper import stated
from paper_figs.tidy import Rows

name = "fig3"
title = "Fig. 3: Share of the primitives that a view keeps"
note = (
    "Bars: mean over views; every view a dot. geometry: the conservative scope, known before the view reads anything; "
    "computation: rows with a gradient; importance: rows with a gradient norm above 0.2 × the view's mean, which the "
    "gate holds back. One training with densification, at its start, half way, at its end, and right after an "
    "opacity reset of that end. The paper shows geometry > computation > importance after 7,000 iterations (images "
    "here) and states no share; in_order is the share of views for which that order is strict."
)
needs: tuple[Need, ...] = (Table(name="locality"),)
brackets = "Values are means over views; brackets: the smallest and the largest view."
# As the paper's beige, blue and purple.
LOCALITIES = {"geometry": 5, "computation": 0, "importance": 4}


def rows(cells: Cells) -> pd.DataFrame:
    """mean_kept by scene, moment and locality, with the range over views; in_order by scene and moment."""
    found, table = Rows(name), cells.table("locality")
    if table is None:
        return found.frame()
    own = cells.table_source("locality", "computed", unit="share")
    for (scene, moment), group in table.groupby(["scene", "moment"], sort=False):
        place = f"{scene}, {moment}, {group['images'].iloc[0]} images"
        for locality in LOCALITIES:
            found.add_mean("mean_kept", group[locality].tolist(), scene=place, arm=locality, **own)
        strict = (group["geometry"] > group["computation"]) & (group["computation"] > group["importance"])
        like_the_paper = group["images"].iloc[0] >= (stated("Fig. 3", "iterations") or 0)
        found.add("in_order", strict.mean(), scene=place, n=len(group), paper=1.0 if like_the_paper else None, **own)
    return found.frame()


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """A panel per scene, a group of bars per moment."""
    table = cells.table("locality")
    if table is None:
        return None
    scenes = list(dict.fromkeys(table["scene"]))
    with canvas(2.4, len(scenes), sharey=True) as (figure, panels):
        for axes, scene, text in zip(panels, scenes, short(scenes), strict=True):
            _panel(axes, table[table["scene"] == scene])
            axes.set_title(text, loc="left", fontsize=8)
        panels[0].set_ylabel("primitives kept, % (computed)")
        panels[0].set_ylim(0, 105 * table[list(LOCALITIES)].to_numpy().max())
        legend_outside(figure, panels)
        return figure


def _panel(axes: Axes, table: pd.DataFrame) -> None:
    moments = list(dict.fromkeys(table["moment"]))
    for place, (locality, shade) in enumerate(LOCALITIES.items()):
        for group, moment in enumerate(moments):
            own, x = 100 * table.loc[table["moment"] == moment, locality], group + 0.27 * (place - 1)
            axes.bar(x, own.mean(), 0.25, color=colour(shade), alpha=0.55, label=locality, zorder=1)
            spread = np.linspace(-0.08, 0.08, len(own)) if len(own) > 1 else np.zeros(1)
            axes.plot(x + spread, own, ".", ms=2.5, color="0.2", zorder=2)
            text = axes.annotate(f"{own.mean():.0f}", (x, 0), (0, 2), textcoords="offset points", fontsize=6.5)
            text.set(ha="center", va="bottom", zorder=3, bbox={"fc": "white", "ec": "none", "pad": 0.6, "alpha": 0.9})
    counts = table.groupby("moment", sort=False)["images"].first()
    axes.set_xticks(range(len(moments)), [f"{moment}\n{counts[moment]:,} images" for moment in moments], fontsize=6.5)
