"""Fig. 8: throughput of every pipeline on every scene, and the mean of scene-level ratios."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from paper_figs.cells import Cells, over_seeds, source, speedups
from paper_figs.drawing import (
    PIPELINES,
    arm_style,
    failed_legend,
    failed_mark,
    in_style,
    legend_outside,
    sheet,
    short,
    without_number,
)
from paper_figs.exhibit import Need, Study
from paper_figs.paper import stated
from paper_figs.tidy import Rows, evidence

name = "fig8"
title = "Fig. 8: Throughput per pipeline and scene"
note = (
    "Images per second. Bars: under a barrier (grey) and under throughput-first (blue), with its speedup; marks on "
    "stems: quality and predicted, also in barrier's own order of views (-random). A cross in an arm's colour: the arm "
    "failed a gate and has no number. The means are arithmetic over scene-level ratios, as the paper's; quality is "
    "bit-identical to waiting, predicted is not."
)
needs: tuple[Need, ...] = (Study(role="matrix"),)
BASELINE, SHOWN = "barrier", "throughput"
BESIDE = ("quality", "quality-random", "predicted", "predicted-random")
ARMS = (SHOWN, *BESIDE)
ALL = (BASELINE, *ARMS)
SLOT = 0.14  # of the distance between scenes


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
    """A panel per pipeline; a slot per arm on every scene."""
    rates, ratios = (rows[rows["quantity"] == q] for q in ("images_per_second", "speedup"))
    present = [p for p in PIPELINES if p in set(rates["pipeline"])]
    if not present:
        return None
    failed = [(g[0].pipeline, g[0].scene, arm) for g, arm in without_number(over_seeds(cells.pairs("matrix")), ALL)]
    columns = min(2, len(present))
    lines = -(-len(present) // columns)
    with sheet(1.8 * lines + 0.7, lines, columns) as (figure, grid):
        for axes in grid.flat[len(present) :]:
            axes.set_axis_off()
        for axes, pipeline in zip(grid.flat, present, strict=False):
            own, ratio = rates[rates["pipeline"] == pipeline], ratios[ratios["pipeline"] == pipeline]
            scenes = list(dict.fromkeys([*own["scene"], *(s for p, s, _ in failed if p == pipeline)]))
            _panel(axes, own, ratio, scenes)
            for _, scene, arm in (one for one in failed if one[0] == pipeline):
                failed_mark(axes, _at(scenes, scene, arm), 0.035, arm, transform=axes.get_xaxis_transform())
            axes.set_title(pipeline, loc="left", fontsize=8)
            axes.set_xticks(range(len(scenes)), short(scenes), rotation=20 if len(scenes) > 4 else 0)
            axes.tick_params(axis="x", length=0)
            axes.set_xlim(-0.5, len(scenes) - 0.5)
            axes.set_ylim(0, 1.2 * own["value"].max())
        for line in grid:
            line[0].set_ylabel(f"images/s ({evidence(rows)})")
        legend_outside(figure, [grid.flat[0]], 4, extra=failed_legend() if failed else None)
        return figure


def _panel(axes: Axes, own: pd.DataFrame, ratio: pd.DataFrame, scenes: list[str]) -> None:
    for arm in ALL:
        style, values = arm_style(arm), own[own["arm"] == arm].set_index("scene")["value"].reindex(scenes)
        x = [_at(scenes, scene, arm) for scene in scenes]
        if arm in (BASELINE, SHOWN):
            axes.bar(x, values, SLOT, color=style["color"], label=arm)
        else:
            axes.vlines(x, 0, values, color=style["color"], lw=0.9)
            axes.plot(x, values, ls="none", ms=4.5, mec="white", mew=0.4, label=arm, **style)
    for row in ratio[ratio["arm"] == SHOWN].to_dict("records"):
        top = own.loc[(own["arm"] == SHOWN) & (own["scene"] == row["scene"]), "value"].iloc[0]
        at = (_at(scenes, row["scene"], SHOWN), top)
        axes.annotate(f"{row['value']:.2f}×", at, (-3, 2), textcoords="offset points", ha="center", fontsize=6.5)


def _at(scenes: list[str], scene: str, arm: str) -> float:
    """Where an arm stands: a slot of its own beside the scene's middle."""
    return scenes.index(scene) + SLOT * (ALL.index(arm) - (len(ALL) - 1) / 2)
