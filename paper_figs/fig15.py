"""Fig. 15: quality of every arm by global batch, beside the band in which the paper's aggregates lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from odin.arms import arm as arm_named
from paper_figs.cells import Cells, Pair, over_seeds, place, source
from paper_figs.drawing import arm_style, in_style, legend_outside, sheet, short
from paper_figs.exhibit import Need, Study
from paper_figs.paper import stated
from paper_figs.quality import METRICS, deltas
from paper_figs.tidy import Rows, evidence
from paper_figs.wording import between, listed, points

name = "fig15"
title = "Fig. 15: Quality differences by global batch"
note = (
    "Relative difference of a metric of the test views from barrier's, after equally many images: a line per number of "
    "ranks W and global batch B, their mean below. Grey: the band in which the paper reports all its aggregates, means "
    "over scenes under throughput-first; it says nothing of single runs. quality ends in barrier-planned's bits, so "
    "what it loses is the plan's order of views alone; arms named -random are in barrier's own order. LPIPS is left "
    "out where its weights are absent."
)
needs: tuple[Need, ...] = (Study(role="batch"),)
SHOWN = "throughput"  # the paper's
ARMS = ("barrier-planned", "quality", SHOWN, "predicted", "quality-random", "predicted-random")
MEAN = "mean"


def rows(cells: Cells) -> pd.DataFrame:
    """quality_delta_psnr, _ssim, _lpips per scene, B and arm, and mean_… of each over these.

    mean_…_same_order: from the arm that waits in the same order of views
    outside_band: share of throughput's differences that are larger than the paper's band; the paper's are none
    """
    found = Rows(name)
    means: dict[tuple[str, str], list[float]] = {}
    groups = over_seeds(cells.pairs("batch"))
    for group in groups:
        first = group[0]
        own = place(group, scene=f"{first.scene}, W = {first.ranks}, B = {first.batch}")
        for arm in ARMS:
            for metric, values in _by_metric(group, arm).items():
                mean = sum(values) / len(values)
                found.add(f"quality_delta_{metric}", mean, arm=arm, n=len(values), unit="share", **own)
                means.setdefault((f"quality_delta_{metric}", arm), []).append(mean)
            for metric, values in _by_metric(group, arm, same_order=True).items():
                quantity = f"quality_delta_{metric}_same_order"
                means.setdefault((quantity, arm), []).append(sum(values) / len(values))
    both = source(cells.pairs("batch")) if groups else {}
    for (quantity, arm), values in means.items():
        found.add_mean(f"mean_{quantity}", values, arm=arm, unit="share", **both)
    _outside(
        found, [v for (q, arm), vs in means.items() if arm == SHOWN and not q.endswith("_order") for v in vs], both
    )
    return found.frame()


def _outside(found: Rows, differences: list[float], both: dict[str, Any]) -> None:
    band = stated("Fig. 15", "quality_delta", high=True)
    if differences and band is not None:
        share = sum(abs(value) > band for value in differences) / len(differences)
        found.add("outside_band", share, arm=SHOWN, n=len(differences), unit="share", paper=0.0, **both)


def _by_metric(group: tuple[Pair, ...], arm: str, *, same_order: bool = False) -> dict[str, list[float]]:
    """Differences over seeds; same_order: from the arm that waits in this arm's order, none for an arm in barrier's."""
    found: dict[str, list[float]] = {}
    for pair in group:
        baseline = _waiting(pair, arm) if same_order else "barrier"
        for metric, delta in deltas(pair, arm, baseline) if baseline else ():
            found.setdefault(metric, []).append(delta)
    return found


def _waiting(pair: Pair, arm: str) -> str:
    """What trains the same views and waits for everything; `quality` ends in the bits of barrier-planned."""
    reference = arm_named(arm).reference
    if arm == reference or reference == "barrier":
        return ""
    return next((one for one in (reference, "quality") if one != arm and pair.run(one) is not None), "")


def remarks(cells: Cells) -> list[str]:
    """The findings, for the caption."""
    return list(findings(rows(cells)))


def findings(frame: pd.DataFrame) -> Iterator[str]:
    """How far throughput is from barrier, and how much of that is the order of views."""
    means = {(row["quantity"], row["arm"]): row for row in frame.to_dict("records")}
    outside = means.get(("outside_band", SHOWN))
    psnr = means.get(("mean_quality_delta_psnr", SHOWN))
    if outside is None or psnr is None:
        return
    yield (
        f"{SHOWN}: PSNR {_spread(psnr)} on the mean of {psnr['n']} places; {100 * outside['value']:.0f} % of its "
        f"{outside['n']} differences are outside the paper's band."
    )
    order = next(
        (means[key] for arm in ("barrier-planned", "quality") if (key := (psnr["quantity"], arm)) in means), None
    )
    same = means.get(("mean_quality_delta_psnr_same_order", SHOWN))
    if order is not None and same is not None:
        why = (
            "Why lower than the paper's: the order." if order["value"] < min(0.0, -abs(same["value"])) else "The order:"
        )
        yield (
            f"{why} {order['arm']} alone, which reads nothing late, is at {_spread(order)}; from waiting in the same "
            f"order {SHOWN} differs by {_spread(same)}."
        )
    own = [row for arm in ARMS if arm.endswith("-random") and (row := means.get((psnr["quantity"], arm))) is not None]
    if own:
        each = [f"{row['arm']} {_spread(row)}" for row in own]
        yield f"In barrier's own order: {listed(each)}."


def _spread(row: dict[str, Any]) -> str:
    """A mean over places with the smallest and the largest."""
    ends = "" if row["low"] != row["low"] else between(points(row["low"]), points(row["high"]))
    return f"{points(row['value'])}{ends}"


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """A panel per metric; single places, and their mean apart."""
    metrics = [m for m in METRICS if (rows["quantity"] == f"quality_delta_{m}").any()]
    if not metrics:
        return None
    single = rows[rows["quantity"].str.startswith("quality_delta_")]
    places = list(dict.fromkeys(single["scene"]))
    texts = [_text(one, places) for one in places]
    arms = [arm for arm in ARMS if arm in set(single["arm"])]
    band = 100 * (stated("Fig. 15", "quality_delta", high=True) or 0.0)
    with sheet((0.2 + 0.05 * len(arms)) * (len(places) + 1) + 1.1, 1, len(metrics), sharey=True) as (figure, grid):
        for axes, metric in zip(grid[0], metrics, strict=True):
            axes.axvspan(-band, band, color="0.92", lw=0, label=f"paper's aggregates: ±{band:g} %")
            axes.axvline(0, color="0.3", lw=0.8)
            for line, arm in enumerate(arms):
                offset = 0.74 * ((line + 0.5) / len(arms) - 0.5)
                own = single[(single["quantity"] == f"quality_delta_{metric}") & (single["arm"] == arm)]
                y = [places.index(scene) + offset for scene in own["scene"]]
                axes.plot(100 * own["value"], y, ls="none", ms=4.5, mec="white", mew=0.4, label=arm, **arm_style(arm))
                mean = rows[(rows["quantity"] == f"mean_quality_delta_{metric}") & (rows["arm"] == arm)]
                _mean(axes, mean, len(places) + 0.3 + offset, arm)
            axes.axhline(len(places) - 0.35, color="0.7", lw=0.6)
            axes.set_xlabel(f"Δ {metric.upper()}, %")
            axes.set_yticks([*range(len(places)), len(places) + 0.3], [*texts, MEAN])
            axes.set_ylim(len(places) + 0.8, -0.5)
            axes.tick_params(axis="y", length=0)
        legend_outside(figure, grid[0], 4)
        figure.supxlabel(f"evidence: {evidence(rows)}", fontsize=7)
        return figure


def _mean(axes: Axes, rows: pd.DataFrame, y: float, arm: str) -> None:
    """A mean with its range, larger than single places."""
    for row in rows.to_dict("records"):
        style = arm_style(arm)
        if row["low"] == row["low"]:
            axes.plot([100 * row["low"], 100 * row["high"]], [y, y], "-", color=style["color"], lw=1.1)
        axes.plot(100 * row["value"], y, ls="none", ms=5.5, mec="white", mew=0.4, **style)


def _text(where: str, places: list[str]) -> str:
    scene, _, rest = where.partition(", ")
    scenes = sorted({p.partition(", ")[0] for p in places})
    return rest if len(scenes) == 1 else f"{short([scene])[0]}, {rest}"
