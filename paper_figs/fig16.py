"""Fig. 16: what the Shadow Graph costs: extra memory by K, and operations beside full replication."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.plan.drawing import colour
from paper_figs.cells import Cells
from paper_figs.drawing import canvas, in_style, legend_above, plain_log
from paper_figs.exhibit import Need, Table
from paper_figs.paper import stated
from paper_figs.tidy import Rows

name = "fig16"
title = "Fig. 16: Cost of the Shadow Graph"
note = (
    "Left: extra memory of a training by K, measured, beside full replication with one state per region. Right: CPU "
    "time of one unit's operation under full replication (parameters, moments and gradients, as "
    "benchmarks/shadow_states.py defines it) over ours. The paper says up to 257× and names neither operation nor "
    "size; alias grows with the table without limit, so any factor can be had by choosing it (Review 7)."
)
needs: tuple[Need, ...] = (Table(name="shadow_memory"), Table(name="shadow_graph"))
MEGA = 1e6


def rows(cells: Cells) -> pd.DataFrame:
    """extra_memory by K and arm, replicated_memory by K, operation_ratio by operation and rows."""
    found = Rows(name)
    memory, operations = cells.table("shadow_memory"), cells.table("shadow_graph")
    if memory is not None:
        own = cells.table_source("shadow_memory", "measured", unit="MB")
        for row in memory.to_dict("records"):
            found.add("extra_memory", row["extra"] / MEGA, scene=f"K = {row['regions']}", arm=row["arm"], **own)
        for row in memory.drop_duplicates("regions").to_dict("records"):
            found.add("replicated_memory", row["replicated_extra"] / MEGA, scene=f"K = {row['regions']}", **own)
    if operations is not None:
        paper = stated("Fig. 16", "operation_ratio")
        own = cells.table_source("shadow_graph", "measured", unit="ratio")
        known = operations.dropna(subset=["ratio"])
        best = known["ratio"].max()
        for row in known.to_dict("records"):
            place = f"{row['rows']} rows, {row['units']} unit(s)"
            beside = paper if row["ratio"] == best else None
            found.add("operation_ratio", row["ratio"], scene=place, arm=row["operation"], paper=beside, **own)
    return found.frame()


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """Memory left, operations right."""
    with canvas(2.6, 2) as (figure, (left, right)):
        memory = rows[rows["unit"] == "MB"]
        counts = memory["scene"].str[4:].astype(int)
        for place, (arm, own) in enumerate(memory.groupby("arm", sort=False)):
            style: dict[str, Any] = {"color": "0.45", "ls": "--", "marker": "s"} if not arm else {
                "color": colour((2, 3, 0)[place % 3]), "marker": "^Do"[place % 3], "ls": "-"}  # fmt: skip
            left.plot(counts[own.index], own["value"], ms=4, label=arm or "full replication", **style)
        left.set_xscale("log", base=2)
        left.set_ylim(bottom=0)
        left.set_xticks(sorted(set(counts)), [str(k) for k in sorted(set(counts))])
        left.set_xlabel("regions K")
        left.set_ylabel("extra memory, MB (measured)")
        _operations(right, rows[rows["quantity"] == "operation_ratio"])
        legend_above(left, 2)
        legend_above(right, 2)
        return figure


def _operations(axes: Axes, frame: pd.DataFrame) -> None:
    names = list(dict.fromkeys(frame["arm"]))
    sizes = list(dict.fromkeys(frame["scene"]))
    for place, size in enumerate(sizes):
        own = frame[frame["scene"] == size]
        y = [names.index(arm) + 0.6 * ((place + 0.5) / len(sizes) - 0.5) for arm in own["arm"]]
        axes.plot(own["value"], y, ls="none", marker="oXP*hDsv<"[place % 9], ms=4, color=colour(place % 10), label=size)
    axes.set_xscale("log")
    plain_log(axes.xaxis)
    axes.axvline(1, color="0.3", lw=0.8)
    paper = stated("Fig. 16", "operation_ratio")
    if paper is not None:
        axes.axvline(paper, color="black", lw=0.8, ls=":", label="paper: up to 257×")
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel("full replication ÷ ours, CPU time (measured)")
