"""Fig. 15: quality of arms that are not exact, by global batch, beside the paper's ±1 % band."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from paper_figs.cells import Cells, over_seeds, place
from paper_figs.drawing import arm_style, in_style, legend_outside, sheet, short
from paper_figs.exhibit import Need, Study
from paper_figs.paper import stated
from paper_figs.quality import METRICS, deltas
from paper_figs.tidy import Rows, evidence

name = "fig15"
title = "Fig. 15: Quality differences by global batch"
note = (
    "Relative difference of a metric of the test views from barrier's, after equally many images; grey: the paper's "
    "reporting band. barrier-planned has the order of views alone; quality is bit-identical to it. LPIPS is left out "
    "where its weights are absent."
)
needs: tuple[Need, ...] = (Study(role="batch"),)
ARMS = ("quality", "throughput", "predicted")


def rows(cells: Cells) -> pd.DataFrame:
    """quality_delta_psnr, _ssim, _lpips per scene, B and arm."""
    found = Rows(name)
    low, high = stated("Fig. 15", "quality_delta"), stated("Fig. 15", "quality_delta", high=True)
    for group in over_seeds(cells.pairs("batch")):
        first = group[0]
        own = place(group, scene=f"{first.scene}, W = {first.ranks}, B = {first.batch}")
        for arm in ARMS:
            values: dict[str, list[float]] = {}
            for pair in group:
                for metric, delta in deltas(pair, arm):
                    values.setdefault(metric, []).append(delta)
            for metric, some in values.items():
                mean = sum(some) / len(some)
                paper = high if mean > 0 else low
                found.add(f"quality_delta_{metric}", mean, arm=arm, n=len(some), unit="share", paper=paper, **own)
    return found.frame()


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """A panel per metric."""
    metrics = [m for m in METRICS if (rows["quantity"] == f"quality_delta_{m}").any()]
    if not metrics:
        return None
    places = list(dict.fromkeys(rows["scene"]))
    texts = [_text(one, places) for one in places]
    band = stated("Fig. 15", "quality_delta", high=True) or 0.0
    with sheet(0.26 * len(places) + 1.1, 1, len(metrics), sharey=True) as (figure, grid):
        for axes, metric in zip(grid[0], metrics, strict=True):
            axes.axvspan(-100 * band, 100 * band, color="0.92", lw=0, label="paper: ±1 %")
            axes.axvline(0, color="0.3", lw=0.8)
            for line, arm in enumerate(ARMS):
                own = rows[(rows["quantity"] == f"quality_delta_{metric}") & (rows["arm"] == arm)]
                y = [places.index(scene) + 0.2 * (line - 1) for scene in own["scene"]]
                axes.plot(100 * own["value"], y, ls="none", ms=4.5, mec="white", mew=0.4, label=arm, **arm_style(arm))
            axes.set_xlabel(f"Δ {metric.upper()}, %")
            axes.set_yticks(range(len(places)), texts)
            axes.set_ylim(len(places) - 0.5, -0.5)
        legend_outside(figure, grid[0])
        figure.supxlabel(f"evidence: {evidence(rows)}", fontsize=7)
        return figure


def _text(where: str, places: list[str]) -> str:
    scene, _, rest = where.partition(", ")
    scenes = sorted({p.partition(", ")[0] for p in places})
    return rest if len(scenes) == 1 else f"{short([scene])[0]}, {rest}"
