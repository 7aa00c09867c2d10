"""Fig. 16: what the Shadow Graph costs: extra memory by K, and operations beside full replication."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.plan.drawing import colour
from paper_figs.cells import Cells
from paper_figs.drawing import arm_style, canvas, decades, in_style, legend_above
from paper_figs.exhibit import Need, Table
from paper_figs.paper import stated
from paper_figs.tidy import Rows

name = "fig16"
title = "Fig. 16: Cost of the Shadow Graph"
note = (
    "Left: extra memory of a training by K, measured, beside full replication with one state per region. Right: CPU "
    "time of one unit's operation under full replication (parameters, moments and gradients, as "
    "benchmarks/shadow_states.py defines it) over ours; colours and lines are sizes of the table, marks units in "
    "flight. The paper says up to 257× and names neither operation nor "
    "size; alias grows with the table without limit, so any factor can be had by choosing it (Review 7)."
)
needs: tuple[Need, ...] = (Table(name="shadow_memory"), Table(name="shadow_graph"))
MEGA = 1e6
SHADES = (0, 1, 2, 4, 7)


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
    with canvas(3.4, 2) as (figure, (left, right)):
        _memory(left, rows[rows["unit"] == "MB"])
        _operations(right, rows[rows["quantity"] == "operation_ratio"])
        legend_above(left, 2)
        legend_above(right, 2)
        return figure


def _memory(axes: Axes, frame: pd.DataFrame) -> None:
    """Arms need nearly the same: wide open marks lie under small filled ones, a line under dashes."""
    counts = frame["scene"].str[4:].astype(int)
    for place, (arm, own) in enumerate(frame.groupby("arm", sort=False)):
        style: dict[str, Any] = {"color": "0.45", "marker": "s", "ms": 4, "ls": ":"}
        if arm:
            look = ({"ms": 8, "mfc": "none", "lw": 2.4}, {"ms": 3.5, "ls": (0, (3, 3)), "lw": 1.4})[place % 2]
            style = arm_style(str(arm)) | look
        axes.plot(counts[own.index], own["value"], label=arm or "full replication", **style)
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=-0.04 * frame["value"].max())  # room for marks at 0
    axes.set_xticks(sorted(set(counts)), [str(k) for k in sorted(set(counts))])
    axes.set_xlabel("regions K")
    axes.set_ylabel("extra memory, MB (measured)")


def _operations(axes: Axes, frame: pd.DataFrame) -> None:
    """A line per operation; below each other in it the sizes of the table, on each of these the numbers of units."""
    names = list(dict.fromkeys(frame["arm"]))
    parts = frame["scene"].str.extract(r"^(?P<rows>\d+) rows, (?P<units>\d+) unit").astype(int)
    sizes, units = sorted(set(parts["rows"])), sorted(set(parts["units"]))
    for size, shade in zip(sizes, SHADES * len(sizes), strict=False):
        for unit, marker in zip(units, "osDv^P" * len(units), strict=False):
            own = frame[(parts["rows"] == size) & (parts["units"] == unit)]
            offset = 0.78 * ((sizes.index(size) + 0.5) / len(sizes) - 0.5)
            offset += 0.24 / len(sizes) * (units.index(unit) - (len(units) - 1) / 2)
            y = [names.index(arm) + offset for arm in own["arm"]]
            axes.plot(own["value"], y, ls="none", marker=marker, ms=4, mfc="none", mew=0.9, color=colour(shade))
        axes.plot([], [], "-", lw=3, color=colour(shade), label=f"{size:,} rows")
    paper = stated("Fig. 16", "operation_ratio")
    if paper is not None:
        axes.axvline(paper, color="black", lw=0.8, ls=":", label=f"paper: up to {paper:g}×")
    for unit, marker in zip(units, "osDv^P" * len(units), strict=False):
        text = f"{unit} unit{'s' if unit > 1 else ''}"
        axes.plot([], [], ls="none", marker=marker, ms=4, mfc="none", color="0.2", label=text)
    axes.set_xscale("log")
    decades(axes.xaxis)
    axes.axvline(1, color="0.3", lw=0.8)
    for between in range(1, len(names)):
        axes.axhline(between - 0.5, color="0.9", lw=0.6, zorder=0)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("full replication ÷ ours, CPU time (measured)")
