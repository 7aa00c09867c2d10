"""Review 1: what the gradient gate lets a step read late, and what that does to its gradient."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from harness.plan.drawing import colour
from paper_figs.cells import Cells
from paper_figs.drawing import canvas, in_style, legend_outside, short
from paper_figs.exhibit import Need, Table
from paper_figs.tidy import Rows

name = "review1"
title = "Review 1: Does the gradient gate bound what a late read does?"
note = (
    "For windows A → B: the rows that pass the gate at τ = 0.2 are read one update late, and B's gradient is compared"
    " with the one from published values (relative L2 error; every window a dot, the bar their median). Evidence: "
    "this rank's own gradient as in the paper (local), the reduced one, or the row's last published norm (history). "
    "stale: last published value; predicted: zero-gradient step. The falsifier scene is built against the gate."
)
needs: tuple[Need, ...] = (Table(name="falsifier"),)
brackets = "Values are medians over windows; brackets: the smallest and the largest window."
READS = ("stale", "predicted")
EVIDENCE = ("local", "reduced", "history")


def rows(cells: Cells) -> pd.DataFrame:
    """gradient_error_… (median with the range over windows) and passing share, per scene and evidence."""
    found, table = Rows(name), cells.table("falsifier")
    if table is None:
        return found.frame()
    own = cells.table_source("falsifier", "computed", unit="share")
    for (scene, evidence), group in table.groupby(["scene", "evidence"], sort=False):
        for read in READS:
            found.add(f"gradient_error_{read}", group[read].median(), low=group[read].min(), high=group[read].max(),
                      scene=scene, arm=evidence, n=len(group), **own)  # fmt: skip
        found.add("passing_rows", group["passing"].mean(), scene=scene, arm=evidence, n=len(group), **own)
        found.add("energy_of_passing_rows", group["energy"].mean(), scene=scene, arm=evidence, n=len(group), **own)
    return found.frame()


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """A panel per kind of read."""
    table = cells.table("falsifier")
    if table is None:
        return None
    scenes = list(dict.fromkeys(table["scene"]))
    evidence = [e for e in EVIDENCE if e in set(table["evidence"])]
    with canvas(0.5 * len(scenes) + 1.1, 2, sharex=True, sharey=True) as (figure, panels):
        for axes, read in zip(panels, READS, strict=True):
            for place, kind in enumerate(evidence):
                for y, scene in enumerate(scenes):
                    own = 100 * table.loc[(table["scene"] == scene) & (table["evidence"] == kind), read]
                    at = y + 0.24 * (place - (len(evidence) - 1) / 2)
                    shade = colour((3, 0, 2)[place])
                    axes.plot(own, [at] * len(own), "o^s"[place], ms=3.5, mfc="none", mec=shade, label=kind)
                    axes.plot([own.median()], [at], "|", ms=9, mew=1.6, color=shade)
            axes.set_title(f"{read} reads", loc="left", fontsize=8)
            axes.set_yticks(range(len(scenes)), short(scenes))
            axes.set_ylim(len(scenes) - 0.5, -0.5)
        figure.supxlabel("error of the next step's gradient, % (computed)", fontsize=8)
        legend_outside(figure, panels)
        return figure
