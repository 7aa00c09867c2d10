"""Fig. 14: sensitivity to the number of regions K and to the gate's τ."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from odin.arms import arm as arm_named
from paper_figs.cells import Cells, over_seeds, place, speedups
from paper_figs.drawing import arm_style, canvas, in_style, legend_above, ratio_axis
from paper_figs.exhibit import Need, Study
from paper_figs.paper import stated
from paper_figs.tidy import Rows, evidence

name = "fig14"
title = "Fig. 14: Sensitivity to the number of regions K and to τ"
note = (
    "Throughput over barrier's. Left: over K. Right: over τ of throughput-first, K = 4; the dotted line is the "
    "paper's default. quality and predicted have no τ."
)
needs: tuple[Need, ...] = (Study(role="regions"), Study(role="tau"))
ARMS = ("throughput", "quality", "predicted")


def rows(cells: Cells) -> pd.DataFrame:
    """speedup by K (quantity speedup_by_regions, the scene names K) and by τ (speedup_by_tau, the arm names τ)."""
    found = Rows(name)
    for group in over_seeds(cells.pairs("regions")):
        first = group[0]
        own = place(group, scene=f"{first.scene}, K = {first.setting('study', 'regions')}")
        for arm in ARMS:
            found.add_ratios("speedup_by_regions", speedups(group, arm), arm=arm, unit="ratio", **own)
    for group in over_seeds(cells.pairs("tau")):
        own = place(group)
        for arm in dict.fromkeys(group[0].sequence):
            if arm.partition(":")[0] == "throughput":
                found.add_ratios("speedup_by_tau", speedups(group, arm), arm=arm, unit="ratio", **own)
    return found.frame()


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """Two panels with one ratio axis."""
    by_regions, by_tau = (rows[rows["quantity"] == f"speedup_by_{what}"] for what in ("regions", "tau"))
    with canvas(2.4, 2, sharey=True) as (figure, (left, right)):
        counts = by_regions["scene"].str.extract(r"K = (\d+)$")[0].astype(float)
        for arm in ARMS:
            own = by_regions["arm"] == arm
            left.plot(counts[own], by_regions.loc[own, "value"], "-", ms=5, label=arm, **arm_style(arm))
        gates = by_tau["arm"].map(lambda text: arm_named(text).tau)
        order = gates.sort_values().index
        right.plot(gates[order], by_tau.loc[order, "value"], "-", ms=5, label="throughput", **arm_style("throughput"))
        _default(left, stated("Setup", "regions"))
        _default(right, stated("Setup", "tau"))
        left.set_xlabel("regions K")
        right.set_xlabel("τ")
        left.set_xticks(sorted(set(counts)))
        right.set_xscale("log")
        right.xaxis.set_major_locator(FixedLocator(sorted(set(gates))))
        right.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        right.xaxis.set_minor_locator(NullLocator())
        ratio_axis(left.yaxis, left, rows["value"])
        right.axhline(1.0, color="0.3", lw=0.8)
        left.set_ylabel(f"throughput ÷ barrier ({evidence(rows)})")
        legend_above(left, 3)
        return figure


def _default(axes: Axes, value: float | None) -> None:
    if value is not None:
        axes.axvline(value, color="0.5", lw=0.8, ls=":", zorder=0)
