"""Fig. 10: throughput by number of ranks and global batch; the gain narrows as B grows."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from harness.plan.drawing import colour
from paper_figs.cells import Cells, over_seeds, place, speedups
from paper_figs.drawing import arm_style, canvas, in_style, legend_above, ratio_axis
from paper_figs.exhibit import Need, Study
from paper_figs.tidy import Rows, evidence

name = "fig10"
title = "Fig. 10: Throughput by ranks and global batch B"
note = (
    "Left: images per second over B, a line per number of ranks, barrier (squares, grey) and throughput-first "
    "(circles). Right: their ratio, with quality and predicted at the most ranks. The paper states that the gain "
    "narrows as B grows."
)
needs: tuple[Need, ...] = (Study(role="batch"),)
ARMS = ("barrier", "throughput", "quality", "predicted")
SHADES = (0, 2, 4, 5, 1)


def rows(cells: Cells) -> pd.DataFrame:
    """images_per_second and speedup of each arm; the scene names ranks and B."""
    found = Rows(name)
    for group in over_seeds(cells.pairs("batch")):
        first = group[0]
        own = place(group, scene=f"{first.scene}, W = {first.ranks}, B = {first.batch}")
        for arm in ARMS:
            rates = [n.images_per_second for pair in group if (n := pair.numbers(arm)) is not None]
            found.add_mean("images_per_second", rates, arm=arm, unit="images/s", **own)
            if arm != "barrier":
                found.add_ratios("speedup", speedups(group, arm), arm=arm, unit="ratio", **own)
    return found.frame()


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """Two panels over B."""
    sized = rows.assign(
        ranks=rows["scene"].str.extract(r"W = (\d+)")[0].astype(int),
        batch=rows["scene"].str.extract(r"B = (\d+)")[0].astype(int),
    ).sort_values(["ranks", "batch"])
    counts = sorted(set(sized["ranks"]))
    with canvas(2.6, 2) as (figure, (left, right)):
        for line, ranks in enumerate(counts):
            own, shade = sized[sized["ranks"] == ranks], colour(SHADES[line % len(SHADES)])
            for arm, dashes in (("barrier", "--"), ("throughput", "-")):
                points = own[(own["arm"] == arm) & (own["quantity"] == "images_per_second")]
                mark = arm_style(arm)["marker"]
                left.plot(points["batch"], points["value"], dashes, marker=mark, ms=4, color=shade,
                          label=f"{ranks} ranks" if arm == "throughput" else None)  # fmt: skip
            points = own[(own["arm"] == "throughput") & (own["quantity"] == "speedup")]
            right.plot(points["batch"], points["value"], "-o", ms=4, color=shade, label=f"throughput, {ranks} ranks")
        most = sized[(sized["ranks"] == counts[-1]) & (sized["quantity"] == "speedup")]
        for arm in ("quality", "predicted"):
            points = most[most["arm"] == arm]
            right.plot(
                points["batch"], points["value"], ":", ms=4, label=f"{arm}, {counts[-1]} ranks", **arm_style(arm)
            )
        for axes in (left, right):
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_locator(FixedLocator(sorted(set(sized["batch"]))))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_xlabel("global batch B")
        kind = evidence(rows)
        left.set_ylim(bottom=0)
        left.set_ylabel(f"images/s ({kind})")
        right.set_ylabel(f"throughput ÷ barrier ({kind})")
        ratio_axis(right.yaxis, right, sized.loc[sized["quantity"] == "speedup", "value"])
        legend_above(left, 3)
        legend_above(right, 2)
        return figure
