"""Fig. 8: throughput of every pipeline on every scene, and the mean of scene-level ratios."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from paper_figs.cells import Cells, over_seeds, source, speedups
from paper_figs.drawing import PIPELINES, arm_style, in_style, legend_outside, sheet, short
from paper_figs.exhibit import Need, Study
from paper_figs.paper import stated
from paper_figs.tidy import Rows, evidence

name = "fig8"
title = "Fig. 8: Throughput per pipeline and scene"
note = (
    "Bars: images per second under a barrier (grey) and under throughput-first (blue), with its speedup; marks: "
    "quality and predicted, also in barrier's own order of views (-random). The means are arithmetic over scene-level "
    "ratios, as the paper's; quality is bit-identical to waiting, predicted is not. FAILED: throughput failed a gate."
)
needs: tuple[Need, ...] = (Study(role="matrix"),)
BASELINE, SHOWN = "barrier", "throughput"
BESIDE = ("quality", "quality-random", "predicted", "predicted-random")
ARMS = (SHOWN, *BESIDE)


def rows(cells: Cells) -> pd.DataFrame:
    """images_per_second and speedup per scene, pipeline and arm; mean_speedup per pipeline and over all."""
    found, ratios = Rows(name), dict[tuple[str, str], list[float]]()
    pairs = cells.pairs("matrix")
    for group in over_seeds(pairs):
        first = group[0]
        where = {"scene": first.scene, "pipeline": first.pipeline}
        own = source(group)
        for arm in (BASELINE, *ARMS):
            rates = [n.images_per_second for pair in group if (n := pair.numbers(arm)) is not None]
            found.add_mean("images_per_second", rates, arm=arm, unit="images/s", **where, **own)
            if arm != BASELINE and (ratio := found.add_ratios("speedup", speedups(group, arm), arm=arm, unit="ratio",
                                                               **where, **own)):  # fmt: skip
                ratios.setdefault((first.pipeline, arm), []).append(ratio.geometric)
    own = source(pairs, unit="ratio")
    for (pipeline, arm), values in ratios.items():
        found.add_mean("mean_speedup", values, pipeline=pipeline, arm=arm, **own)
    for arm in ARMS:
        every = [value for (_, other), values in ratios.items() if other == arm for value in values]
        paper = stated("Abstract", "mean_speedup") if arm == SHOWN else None
        found.add_mean("mean_speedup", every, arm=arm, paper=paper, **own)
    return found.frame()


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """A panel per pipeline."""
    rates, ratios = (rows[rows["quantity"] == q] for q in ("images_per_second", "speedup"))
    present = [p for p in PIPELINES if p in set(rates["pipeline"])]
    if not present:
        return None
    columns = min(2, len(present))
    lines = -(-len(present) // columns)
    with sheet(1.7 * lines + 0.8, lines, columns) as (figure, grid):
        for axes in grid.flat[len(present) :]:
            axes.set_axis_off()
        for axes, pipeline in zip(grid.flat, present, strict=False):
            own, ratio = rates[rates["pipeline"] == pipeline], ratios[ratios["pipeline"] == pipeline]
            scenes = list(dict.fromkeys(own["scene"]))
            _panel(axes, own, ratio, scenes)
            axes.set_title(pipeline, loc="left", fontsize=8)
            axes.set_xticks(range(len(scenes)), short(scenes), rotation=20 if len(scenes) > 4 else 0)
            axes.set_ylim(0, 1.22 * own["value"].max())
        for line in grid:
            line[0].set_ylabel(f"images/s ({evidence(rows)})")
        legend_outside(figure, [grid.flat[0]])
        return figure


def _panel(axes: Axes, own: pd.DataFrame, ratio: pd.DataFrame, scenes: list[str]) -> None:
    for offset, arm in ((-0.2, BASELINE), (0.2, SHOWN)):
        values = own[own["arm"] == arm].set_index("scene")["value"].reindex(scenes)
        axes.bar([x + offset for x in range(len(scenes))], values, 0.38, color=arm_style(arm)["color"], label=arm)
    for arm in BESIDE:
        values = own[own["arm"] == arm].set_index("scene")["value"].reindex(scenes)
        axes.plot(range(len(scenes)), values, ls="none", ms=4, mec="white", mew=0.4, label=arm, **arm_style(arm))
    tops = own.groupby("scene")["value"].max()
    for x, scene in enumerate(scenes):
        said = ratio[(ratio["arm"] == SHOWN) & (ratio["scene"] == scene)]["value"]
        text = f"{said.iloc[0]:.2f}×" if len(said) else "FAILED"
        axes.annotate(text, (x + 0.2, tops[scene]), (0, 4), textcoords="offset points", ha="center", fontsize=7)
