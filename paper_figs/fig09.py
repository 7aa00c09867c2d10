"""Fig. 9: the 3DGS speedup of every scene, best and worst named; also what Review 3 asks for behind the mean."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from paper_figs.cells import Cells, Pair, over_seeds, place, speedups
from paper_figs.drawing import (
    SPEEDUP,
    WIDTH,
    canvas,
    dots,
    failed_legend,
    in_style,
    legend_above,
    ratio_axis,
    without_number,
)
from paper_figs.exhibit import Need, Study
from paper_figs.tidy import Rows, evidence

name = "fig9"
title = "Fig. 9: Speedup per scene"
note = (
    "Marks: an arm's speedup over barrier on one scene, 3DGS, log axis; a cross at 1: the arm failed a gate "
    "there; dashed: the scene's limit, at which nothing would be lost. The paper names Stump as the scene with the "
    "lowest gain and states no ratio."
)
needs: tuple[Need, ...] = (Study(role="matrix"),)
ARMS = ("throughput", "quality", "quality-random", "predicted", "predicted-random")
PIPELINE = "3DGS"


def used(cells: Cells) -> list[Pair]:
    """The pairs that are shown."""
    return [pair for pair in cells.pairs("matrix") if pair.pipeline == PIPELINE]


def rows(cells: Cells) -> pd.DataFrame:
    """speedup per scene and arm, and limit: the ratio at which nothing would be lost."""
    found = Rows(name)
    for group in over_seeds(used(cells)):
        own = place(group)
        for arm in ARMS:
            found.add_ratios("speedup", speedups(group, arm), arm=arm, unit="ratio", **own)
        limits = [value for pair in group if (value := pair.limit) is not None]
        found.add_mean("limit", limits, unit="ratio", **own)
    return found.frame()


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """One panel, scenes below each other, the worst last."""
    ratios, limits = rows[rows["quantity"] == "speedup"], rows[rows["quantity"] == "limit"]
    if ratios.empty:
        return None
    scenes = list(ratios.groupby("scene")["value"].mean().sort_values(ascending=False).index)
    lost = without_number(over_seeds(used(cells)), ARMS)
    failed = [(group[0].scene, arm) for group, arm in lost if group[0].scene in scenes]
    with canvas(0.42 * len(scenes) + 1.0, width=0.75 * WIDTH) as (figure, (axes,)):
        dots(axes, ratios, "scene", scenes, arms=ARMS, failed=failed)
        for row in limits.to_dict("records"):
            y = scenes.index(row["scene"])
            axes.plot([row["value"]] * 2, [y - 0.4, y + 0.4], "--", color="0.3", lw=0.9, label="limit")
        ratio_axis(axes.xaxis, axes, [*ratios["value"], *limits["value"]])
        axes.set_xlabel(f"{SPEEDUP} ({evidence(rows)})")
        legend_above(axes, 3, extra=failed_legend() if failed else None)
        return figure
