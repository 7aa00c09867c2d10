"""Review 3: the ratios behind the mean, one row per pipeline and scene, with the noise floor and what failed."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from paper_figs.cells import Cells, over_seeds, place, source, speedups
from paper_figs.drawing import PIPELINES, arm_style, in_style, legend_outside, ratio_axis, sheet, short
from paper_figs.exhibit import Need, Study
from paper_figs.tidy import Rows, evidence

name = "review3"
title = "Review 3: The ratios behind the mean"
note = (
    "Every cell of the matrix: throughput over barrier's, and against barrier-planned, which has the same order of "
    "views (open marks). The paper shows groups of scenes only. A missing mark failed a gate and is named below."
)
needs: tuple[Need, ...] = (Study(role="matrix"),)
ARMS = ("quality", "quality-random", "throughput", "predicted", "predicted-random")


def rows(cells: Cells) -> pd.DataFrame:
    """speedup and speedup_same_order per pipeline, scene and arm; the worst cell of each arm."""
    found, worst = Rows(name), dict[str, tuple[float, str, str]]()
    pairs = cells.pairs("matrix")
    for group in over_seeds(pairs):
        first = group[0]
        own = place(group)
        for arm in ARMS:
            ratio = found.add_ratios("speedup", speedups(group, arm), arm=arm, unit="ratio", **own)
            same = [
                row.numbers.speedup for p in group for row in p.headline.same_order if row.arm == arm and row.numbers
            ]
            found.add_ratios("speedup_same_order", same, arm=arm, unit="ratio", **own)
            if ratio is not None:
                worst[arm] = min(worst.get(arm, (9e9, "", "")), (ratio.geometric, first.scene, first.pipeline))
    both = source(pairs)
    for arm, (value, scene, pipeline) in worst.items():
        found.add("worst_speedup", value, scene=scene, pipeline=pipeline, arm=arm, unit="ratio", **both)
    return found.frame()


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """A panel per pipeline."""
    ratios = rows[rows["quantity"].isin(["speedup", "speedup_same_order"])]
    present = [p for p in PIPELINES if p in set(ratios["pipeline"])]
    scenes = list(dict.fromkeys(ratios["scene"]))
    if not present:
        return None
    with sheet(0.34 * len(scenes) + 1.0, 1, len(present), sharey=True) as (figure, grid):
        for axes, pipeline in zip(grid[0], present, strict=True):
            for row in ratios[ratios["pipeline"] == pipeline].to_dict("records"):
                y = scenes.index(row["scene"]) + 0.15 * (ARMS.index(row["arm"]) - 2)
                style, filled = arm_style(row["arm"]), row["quantity"] == "speedup"
                size, edge = (4.5, 0.6) if filled else (6.0, 0.8)
                axes.plot(row["value"], y, ls="none", marker=style["marker"], ms=size, mew=edge,
                          mfc=style["color"] if filled else "none", mec="white" if filled else style["color"],
                          label=row["arm"] if filled else None, zorder=3 if filled else 2)  # fmt: skip
            ratio_axis(axes.xaxis, axes, ratios["value"], most=4)
            axes.set_title(pipeline, loc="left", fontsize=8)
            axes.set_yticks(range(len(scenes)), short(scenes))
            axes.set_ylim(len(scenes) - 0.5, -0.5)
        legend_outside(figure, grid[0])
        figure.supxlabel(f"throughput ÷ barrier ({evidence(rows)})", fontsize=8)
        return figure
