"""Fig. 1: what of a step is exposed communication, and how long each rank idles, under a barrier."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.config.committed import FITTED_LINKS
from harness.plan.drawing import colour
from harness.profiles.load import link_profile
from paper_figs.cells import Cells, Pair, source
from paper_figs.drawing import PAPER_MARK, PIPELINES, canvas, in_style, legend_above
from paper_figs.exhibit import Need, Study
from paper_figs.paper import stated
from paper_figs.tidy import Rows, evidence, number

name = "fig1"
title = "Fig. 1: Exposed communication per pipeline, and idle time per rank"
note = (
    "Left: transfer that ranks wait for, as a share of a barrier step; circles are scenes, the bar their mean, the "
    "star the paper's share. Right: share of a barrier step that each rank idles, marks are ranks of all scenes; above "
    "all of it (circles: transfer and skew), below its skew alone (diamonds: until the slowest rank is there; here a "
    "rank's wait less the mean transfer of its ranks). The grey bar is the paper's range of idle time over the GPUs of "
    "a run; it lies beside the skew, since a range from 1 % cannot contain a transfer of which 22.9 % are exposed."
)
needs: tuple[Need, ...] = (Study(role="matrix"),)
BASELINE = "barrier"


def remarks(cells: Cells) -> list[str]:
    """What the links of the shown pairs were fitted to, if they were."""
    names = {str(pair.setting("link", "name")) for pairs in _by_pipeline(cells).values() for pair in pairs}
    links = [link_profile(link) for link in sorted(names & set(FITTED_LINKS))]
    if not links:
        return []
    shares = ", ".join(f"{link.name} {number(link.exposed.value, 'share')}" for link in links)
    seeds = ", ".join(map(str, sorted({link.fit.seed for link in links})))
    scenes = ", ".join(dict.fromkeys(scene.scene for link in links for scene in link.fit.scenes))
    return [
        f"The bandwidths of the links were fitted to the paper's shares ({shares}; the mean over {scenes}, seed "
        f"{seeds}): where the means agree, they do so by construction, and the spread over scenes is the result."
    ]


def rows(cells: Cells) -> pd.DataFrame:
    """exposed per scene and pipeline and its mean over scenes; over all ranks idle_least and idle_most, and the same of
    their skew alone, idle_skew_least and idle_skew_most, which the paper's range is compared with."""
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
        for quantity, shares_of in (("idle", _idle), ("idle_skew", skew)):
            ranks = [share for pair in pairs for share in shares_of(pair)]
            for end, pick, high in (("least", min, False), ("most", max, True)):
                limit = stated("Fig. 1", "idle", high=high) if quantity == "idle_skew" else None
                found.add(f"{quantity}_{end}", pick(ranks, default=None), n=len(ranks), paper=limit, **common)
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
            _ranks(right, y, pairs, shade)
        left.set_yticks(range(len(groups)), list(groups))
        left.set_ylim(len(groups) - 0.5, -0.5)
        kind = evidence(rows)
        left.set_xlabel(f"exposed transfer, % of a step ({kind})")
        right.set_xlabel(f"share of a step that a rank idles, % ({kind})")
        left.set_xlim(left=0)
        right.set_xlim(left=0)
        legend_above(left)
        legend_above(right, 3)
        return figure


def _ranks(axes: Axes, y: int, pairs: Sequence[Pair], shade: str) -> None:
    """All that ranks wait for above the line, their skew below it on the paper's range."""
    low, high = stated("Fig. 1", "idle"), stated("Fig. 1", "idle", high=True)
    if low is not None and high is not None:
        axes.barh(y + 0.2, 100 * (high - low), 0.32, 100 * low, color="0.88", zorder=0, label="paper's idle")
    for shares_of, marker, filled, text, offset in (
        (_idle, "o", False, "transfer + skew", -0.2),
        (skew, "D", True, "skew alone", 0.2),
    ):
        shares = [100 * share for pair in pairs for share in shares_of(pair)]
        for x, colour_of, said in ((shares, shade, None), ([], "0.3", text)):  # the legend is of all pipelines
            axes.plot(x, [y + offset] * len(x), ls="none", marker=marker, ms=3, mew=0.8, mec=colour_of,
                      mfc=colour_of if filled else "none", label=said, zorder=3)  # fmt: skip


def _by_pipeline(cells: Cells) -> dict[str, list[Pair]]:
    pairs = [pair for pair in cells.pairs("matrix") if pair.run(BASELINE) is not None]
    return {name: own for name in PIPELINES if (own := [p for p in pairs if p.pipeline == name])}


def _idle(pair: Pair) -> list[float]:
    """Share of the time that each rank of the waiting run idles; nothing without one."""
    run = pair.run(BASELINE)
    return list(run.breakdown.idle_by_rank) if run else []


def skew(pair: Pair) -> list[float]:
    """The part of `_idle` that is no transfer. Records hold waits by rank and the mean transfer of the ranks; a barrier
    ends the transfer for all at once, so ranks differ in it only as far as they join after the last one sent."""
    run = pair.run(BASELINE)
    if run is None:
        return []
    parts = run.breakdown
    return [max(0.0, wait - parts.transfer) / parts.step for wait in parts.wait_by_rank]
