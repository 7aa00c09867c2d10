"""Fig. 12: replicated and sharded state on one scene, with and without Odin, against one rank."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from harness.plan.drawing import colour
from paper_figs import scaling
from paper_figs.cells import Cells
from paper_figs.drawing import PAPER_MARK, WIDTH, canvas, in_style, legend_above, short
from paper_figs.exhibit import Need, Study
from paper_figs.paper import stated
from paper_figs.tidy import Rows, evidence

name = "fig12"
title = "Fig. 12: DDP, Grendel and each with Odin against one rank"
note = (
    "Bars: images per second at the most ranks of the study over those of 3DGS on one rank; dashed: ideal; star: the "
    "paper's DDP + Odin on truck with 8 GPUs."
)
needs: tuple[Need, ...] = (Study(role=scaling.ROLE),)
PAPERS = "DDP + Odin (predicted)"  # the arm nearest to the paper's default; it admits what the gate refuses


def rows(cells: Cells) -> pd.DataFrame:
    """speedup_over_one_rank of each regime at the most ranks, on the first scene."""
    pairs = cells.pairs(scaling.ROLE)
    if not scaling.reference(cells):
        return Rows(name).frame()
    most, scene = max(pair.ranks for pair in pairs), pairs[0].scene
    paper = {PAPERS: stated("Fig. 12", "speedup_over_one_gpu")} if most == 8 else {}
    frame = scaling.over_one_rank(name, cells, list(scaling.REGIMES), paper, [most])
    return frame[frame["scene"].str.startswith(f"{scene},")].reset_index(drop=True)


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """One bar per regime."""
    if rows.empty:
        return None
    ideal = int(str(rows["scene"].iloc[0]).rpartition("= ")[2])
    with canvas(0.3 * len(rows) + 0.9, width=0.75 * WIDTH) as (figure, (axes,)):
        for y, row in enumerate(rows.to_dict("records")):
            shade = colour(5) if row["arm"].startswith("Grendel") else colour(0)
            axes.barh(y, row["value"], 0.62, color=shade, alpha=0.45 if "Odin" not in row["arm"] else 0.9)
            axes.annotate(
                f"{row['value']:.2f}×", (row["value"], y), (-4, 0), textcoords="offset points", va="center", ha="right"
            )
            if row["paper"] == row["paper"]:
                axes.plot(row["paper"], y, **PAPER_MARK, label="paper")
        axes.axvline(ideal, color="0.3", lw=0.8, ls="--", label=f"ideal, {ideal}×")
        axes.set_yticks(range(len(rows)), list(rows["arm"]))
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(0, 1.14 * max(ideal, rows["value"].max()))
        scene = short([str(rows["scene"].iloc[0])])[0]
        axes.set_xlabel(f"throughput ÷ one rank, {scene}, W = {ideal} ({evidence(rows)})")
        legend_above(axes)
        return figure
