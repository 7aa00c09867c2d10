"""Review 3: the ratios behind the mean, one row per pipeline and scene, with the noise floor and what failed."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from paper_figs.cells import Cells, over_seeds, place, source, speedups
from paper_figs.drawing import (
    PIPELINES,
    SPEEDUP,
    arm_style,
    failed_legend,
    failed_mark,
    in_style,
    legend_outside,
    ratio_axis,
    sheet,
    short,
    without_number,
)
from paper_figs.exhibit import Need, Study
from paper_figs.tidy import Rows, evidence

name = "review3"
title = "Review 3: The ratios behind the mean"
note = (
    "Every cell of the matrix. Filled marks: speedup over barrier, a cross at 1 where the arm failed a gate. Open "
    "marks: speedup over barrier-planned, which has the same order of views, so a difference of quality between orders "
    "does not touch it. The paper shows groups of scenes only."
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
    lost = [(group[0], arm) for group, arm in without_number(over_seeds(cells.pairs("matrix")), ARMS)]
    with sheet(0.4 * len(scenes) + 1.0, 1, len(present), sharey=True) as (figure, grid):
        for axes, pipeline in zip(grid[0], present, strict=True):
            for row in ratios[ratios["pipeline"] == pipeline].to_dict("records"):
                y = _line(scenes, row["scene"], row["arm"])
                style, filled = arm_style(row["arm"]), row["quantity"] == "speedup"
                size, edge = (4.5, 0.6) if filled else (6.0, 0.8)
                axes.plot(row["value"], y, ls="none", marker=style["marker"], ms=size, mew=edge,
                          mfc=style["color"] if filled else "none", mec="white" if filled else style["color"],
                          label=row["arm"] if filled else None, zorder=3 if filled else 2)  # fmt: skip
            for pair, arm in lost:
                if pair.pipeline == pipeline and pair.scene in scenes:
                    failed_mark(axes, 1.0, _line(scenes, pair.scene, arm), arm, ms=3.5, mew=1.1)
            ratio_axis(axes.xaxis, axes, ratios["value"], most=4)
            axes.set_title(pipeline, loc="left", fontsize=8)
            axes.set_yticks(range(len(scenes)), short(scenes))
            axes.set_ylim(len(scenes) - 0.5, -0.5)
        legend_outside(figure, grid[0], 6, extra=failed_legend() if lost else None)
        figure.supxlabel(f"{SPEEDUP}; open marks: over barrier-planned ({evidence(rows)})", fontsize=8)
        return figure


def _line(scenes: list[str], scene: str, arm: str) -> float:
    """An arm's place below a scene."""
    return scenes.index(scene) + 0.16 * (ARMS.index(arm) - (len(ARMS) - 1) / 2)
