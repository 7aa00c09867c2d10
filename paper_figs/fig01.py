"""Fig. 1: what of a step is exposed communication, and how long each rank idles, under a barrier."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from harness.plan.drawing import colour
from paper_figs.cells import Cells, Pair, source
from paper_figs.drawing import PAPER_MARK, PIPELINES, canvas, in_style, legend_above
from paper_figs.exhibit import Need, Study
from paper_figs.paper import stated
from paper_figs.tidy import Rows, evidence

name = "fig1"
title = "Fig. 1: Exposed communication per pipeline, and idle time per rank"
note = (
    "Left: transfer that ranks wait for, as a share of a barrier step; circles are scenes, the bar their mean, the "
    "star the paper's share. Right: share of the time that each rank waits; circles are ranks of all scenes, the grey"
    " band the paper's range."
)
needs: tuple[Need, ...] = (Study(role="matrix"),)
BASELINE = "barrier"


def rows(cells: Cells) -> pd.DataFrame:
    """exposed per scene and pipeline and its mean over scenes; idle_least and idle_most over all ranks."""
    found = Rows(name)
    for pipeline, pairs in _by_pipeline(cells).items():
        common = source(pairs, pipeline=pipeline, arm=BASELINE, unit="share")
        shares = {}
        for pair in pairs:
            parts = pair.run(BASELINE)
            if parts is not None and pair.seed == pairs[0].seed:
                shares[pair.scene] = parts.breakdown.transfer / parts.breakdown.step
        for scene, share in shares.items():
            found.add("exposed", share, scene=scene, **common)
        paper = stated("Fig. 1", "exposed", pipeline=pipeline)
        found.add_mean("mean_exposed", list(shares.values()), paper=paper, **common)
        idle = [share for pair in pairs for share in _idle(pair)]
        for quantity, pick, high in (("idle_least", min, False), ("idle_most", max, True)):
            limit = stated("Fig. 1", "idle", high=high)
            found.add(quantity, pick(idle, default=None), n=len(idle), paper=limit, **common)
    return found.frame()


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """Two panels, a line per pipeline."""
    groups = _by_pipeline(cells)
    with canvas(0.42 * len(groups) + 1.0, 2, sharey=True) as (figure, (left, right)):
        for y, (pipeline, pairs) in enumerate(groups.items()):
            own, shade = rows[rows["pipeline"] == pipeline], colour(PIPELINES[pipeline])
            mean = own[own["quantity"] == "mean_exposed"].iloc[0]
            left.barh(y, 100 * mean["value"], 0.6, color=shade, alpha=0.45, zorder=1)
            dots = 100 * own.loc[own["quantity"] == "exposed", "value"]
            left.plot(dots, [y] * len(dots), "o", ms=4, mfc="white", mec=shade, zorder=3)
            if mean["paper"] == mean["paper"]:
                left.plot(100 * mean["paper"], y, **PAPER_MARK, label="paper", zorder=4)
            idle = [100 * share for pair in pairs for share in _idle(pair)]
            right.plot(idle, [y] * len(idle), "o", ms=3.5, mfc="none", mec=shade, zorder=3)
        low, high = stated("Fig. 1", "idle"), stated("Fig. 1", "idle", high=True)
        right.axvspan(100 * (low or 0), 100 * (high or 0), color="0.92", lw=0, zorder=0, label="paper")
        left.set_yticks(range(len(groups)), list(groups))
        left.set_ylim(len(groups) - 0.5, -0.5)
        kind = evidence(rows)
        left.set_xlabel(f"exposed transfer, % of a step ({kind})")
        right.set_xlabel(f"idle share of a rank, % ({kind})")
        left.set_xlim(left=0)
        right.set_xlim(left=0)
        for axes in (left, right):
            legend_above(axes)
        return figure


def _by_pipeline(cells: Cells) -> dict[str, list[Pair]]:
    pairs = [pair for pair in cells.pairs("matrix") if pair.run(BASELINE) is not None]
    return {name: own for name in PIPELINES if (own := [p for p in pairs if p.pipeline == name])}


def _idle(pair: Pair) -> list[float]:
    """Share of the time that each rank of the waiting run idles; nothing without one."""
    run = pair.run(BASELINE)
    return list(run.breakdown.idle_by_rank) if run else []
