"""Fig. 13: the city on shards over nodes: speedup over Grendel, what is exposed, and what of the gradients' way back
no rank waits for."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from paper_figs.cells import Cells, Pair, over_seeds, place, speedups
from paper_figs.drawing import (
    SPEEDUP,
    arm_style,
    canvas,
    dots,
    failed_legend,
    in_style,
    legend_above,
    ratio_axis,
    without_number,
)
from paper_figs.exhibit import Need, Study
from paper_figs.paper import stated
from paper_figs.tidy import Rows, evidence

name = "fig13"
title = "Fig. 13: A city on shards, over nodes"
note = (
    "Left: speedup over the same shards with a barrier, and the limit at which nothing would be lost; star: the "
    "paper's MatrixCity; a cross at 1: the arm failed a gate. Right: share of a transfer that no rank waits "
    "for, of gradients on their way back (publish, filled) and of projected rows (observe, open). barrier waits for "
    "both, quality for publish, and predicted for observe: these are 0 by construction and not drawn. predicted-random "
    "keeps the barrier's order of views."
)
needs: tuple[Need, ...] = (Study(role="city"),)
ARMS = ("barrier", "quality", "predicted", "predicted-random")
DEFAULT = "predicted"
# What an arm waits for, so that none of it can be hidden.
WAITED = {
    ("barrier", "hidden_publish"),
    ("barrier", "hidden_observe"),
    ("quality", "hidden_publish"),
    ("predicted", "hidden_observe"),
    ("predicted-random", "hidden_observe"),
}


def remarks(cells: Cells) -> list[str]:
    """What a generated city stands for."""
    generated = not all(pair.real for pair in cells.pairs("city"))
    return ["One region of a procedural city, not a full city run (Review 4)."] if generated else []


def rows(cells: Cells) -> pd.DataFrame:
    """speedup, limit, exposed, hidden_publish, hidden_observe per size and arm."""
    found = Rows(name)
    for group in sorted(over_seeds(cells.pairs("city")), key=lambda group: group[0].ranks):
        first = group[0]
        own = place(group, scene=f"W = {first.ranks}")
        limits = [value for pair in group if (value := pair.limit) is not None]
        found.add_mean("limit", limits, unit="ratio", **own)
        for arm in ARMS:
            paper = stated("Fig. 13", f"speedup_{first.ranks}") if arm == DEFAULT else None
            if arm != "barrier":
                found.add_ratios("speedup", speedups(group, arm), arm=arm, unit="ratio", paper=paper, **own)
            for quantity, shares in _shares(group, arm).items():
                found.add_mean(quantity, shares, arm=arm, unit="share", **own)
    return found.frame()


def _shares(group: tuple[Pair, ...], arm: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"exposed": [], "hidden_publish": [], "hidden_observe": []}
    for pair in group:
        run, numbers = pair.run(arm), pair.numbers(arm)
        if run is None or numbers is None:
            continue
        readings = {"exposed": numbers.against.exposed}
        if run.exchange is not None:
            readings |= {"hidden_publish": run.exchange.publish.hidden, "hidden_observe": run.exchange.observe.hidden}
        for quantity, reading in readings.items():
            if reading.value is not None:
                found[quantity].append(reading.value)
    return found


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """Ratios left, shares right."""
    ratios, limits = rows[rows["quantity"] == "speedup"], rows[rows["quantity"] == "limit"]
    if ratios.empty:
        return None
    groups = sorted(over_seeds(cells.pairs("city")), key=lambda group: group[0].ranks)
    failed = [(f"W = {group[0].ranks}", arm) for group, arm in without_number(groups, ARMS)]
    places = list(dict.fromkeys(f"W = {group[0].ranks}" for group in groups))
    with canvas(0.5 * len(places) + 1.3, 2, sharey=True) as (figure, (left, right)):
        dots(left, ratios, "scene", places, arms=ARMS, failed=failed)
        for row in limits.to_dict("records"):
            y = places.index(row["scene"])
            left.plot([row["value"]] * 2, [y - 0.4, y + 0.4], "--", color="0.3", lw=0.9, label="limit")
        ratio_axis(left.xaxis, left, [*ratios["value"], *limits["value"], *ratios["paper"].dropna()])
        _hidden(right, rows, places)
        left.set_yticks(range(len(places)), places)
        kind = evidence(rows)
        left.set_xlabel(f"{SPEEDUP} ({kind})")
        right.set_xlabel(f"hidden share of a transfer, % ({kind})")
        legend_above(left, 2, extra=failed_legend() if failed else None)
        legend_above(right, 2)
        return figure


def _hidden(axes: Axes, rows: pd.DataFrame, places: list[str]) -> None:
    """Shares that an arm does not hold at 0 by its waiting, or that are not 0 all the same."""
    for row in rows[rows["quantity"].isin(["hidden_publish", "hidden_observe"])].to_dict("records"):
        arm, filled = row["arm"], row["quantity"] == "hidden_publish"
        if row["value"] == 0 and (arm, row["quantity"]) in WAITED:
            continue
        at = places.index(row["scene"]) + 0.2 * (ARMS.index(arm) - (len(ARMS) - 1) / 2)
        style = arm_style(arm)
        look = {"marker": style["marker"], "mec": style["color"], "mfc": style["color"] if filled else "none"}
        size, said = 5.0 if filled else 6.5, f"{arm}, {row['quantity'][7:]}"
        axes.plot(100 * row["value"], at, ls="none", ms=size, label=said, **look)
    axes.set_xlim(min(0, axes.get_xlim()[0]), 102)
