"""Fig. 12: replicated and sharded state on one scene, with and without Odin, against one rank."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from paper_figs import scaling
from paper_figs.cells import Cells, Pair
from paper_figs.drawing import (
    PAPER_MARK,
    WIDTH,
    arm_style,
    canvas,
    failed_legend,
    failed_mark,
    in_style,
    legend_above,
    short,
)
from paper_figs.exhibit import Need, Study
from paper_figs.paper import stated
from paper_figs.tidy import evidence

name = "fig12"
title = "Fig. 12: DDP, Grendel and each with Odin against one rank"
note = (
    "Bars: images per second at the most ranks of the study over those of 3DGS on one rank, in the arms' colours; a "
    "cross: the arm failed a gate; dashed: ideal; star: the paper's DDP + Odin on truck with 8 GPUs, beside "
    "throughput-first, its default, or beside predicted where that was not run."
)
needs: tuple[Need, ...] = (Study(role=scaling.ROLE),)
ARMS = scaling.ARMS
PAPERS = ("throughput", "predicted")


def used(cells: Cells) -> list[Pair]:
    """Those of the first scene at the most ranks, and 3DGS on one rank."""
    pairs = cells.pairs(scaling.ROLE)
    most = max((pair.ranks for pair in pairs), default=1)
    return [
        pair
        for pair in pairs
        if pair.scene == pairs[0].scene and (pair.ranks == most or (pair.ranks == 1 and pair.pipeline == "3DGS"))
    ]


def remarks(cells: Cells) -> list[str]:
    """What the link leaves to any arm that sends what DDP sends."""
    pairs, paper = used(cells), stated("Fig. 12", "speedup_over_one_gpu")
    pair = next((pair for pair in pairs if pair.ranks > 1 and pair.pipeline == "3DGS"), None)
    if pair is None:
        return []
    own, base = pair.run("barrier"), scaling.reference(cells).get(pair.scene)
    if own is None or base is None or not own.breakdown.transfer:
        return []
    transfer, alone = own.breakdown.transfer, own.global_batch / base[0]  # s per step, and of its views on one rank
    asks = f" {paper:g}× would ask for at most {1e3 * alone / paper:.1f} ms." if paper else ""
    return [
        f"DDP + Odin sends what DDP sends, for which barrier waits {1e3 * transfer:.1f} ms of a step of "
        f"{1e3 * own.breakdown.step:.1f} ms: on this link no order of work takes it above "
        f"{alone / transfer:.2f}×.{asks}"
    ]


def rows(cells: Cells) -> pd.DataFrame:
    """speedup_over_one_rank of each regime at the most ranks, on the first scene."""
    pairs = used(cells)
    beside = _papers(pairs)
    paper = {scaling.REGIMES["3DGS", beside]: stated("Fig. 12", "speedup_over_one_gpu")} if beside else {}
    return scaling.over_one_rank(name, pairs, scaling.reference(cells), list(scaling.REGIMES), paper)


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """One bar per regime."""
    if rows.empty:
        return None
    pairs, paper = used(cells), stated("Fig. 12", "speedup_over_one_gpu")
    ideal, beside = max(pair.ranks for pair in pairs), _papers(pairs)
    lost = {key for _, key in scaling.lost(pairs, list(scaling.REGIMES))}
    values = dict(zip(rows["arm"], rows["value"], strict=True))
    lines = [key for key, regime in scaling.REGIMES.items() if key in lost or regime in values]
    with canvas(0.24 * len(lines) + 0.9, width=0.75 * WIDTH) as (figure, (axes,)):
        for y, key in enumerate(lines):
            value = values.get(scaling.REGIMES[key])
            if value is None:
                failed_mark(axes, 0.02, y, key[1], transform=axes.get_yaxis_transform())
                continue
            axes.barh(y, value, 0.66, color=arm_style(key[1])["color"], alpha=0.75)
            axes.annotate(f"{value:.2f}×", (0, y), (4, 0), textcoords="offset points", va="center")
        if beside and paper is not None and ("3DGS", beside) in lines:
            axes.plot(paper, lines.index(("3DGS", beside)), **PAPER_MARK, label=f"paper, {paper:g}×")
        axes.axvline(ideal, color="0.3", lw=0.8, ls="--", label=f"ideal, {ideal}×")
        axes.set_yticks(range(len(lines)), [scaling.REGIMES[key] for key in lines])
        axes.set_ylim(len(lines) - 0.5, -0.5)
        axes.set_xlim(0, 1.06 * max(ideal, rows["value"].max()))
        scene = short([pairs[0].scene])[0]
        axes.set_xlabel(f"speedup over one rank, {scene}, W = {ideal} ({evidence(rows)})")
        legend_above(axes, extra=failed_legend() if lost else None)
        return figure


def _papers(pairs: Sequence[Pair]) -> str:
    """The arm that the paper's number stands beside; "" where nothing was run on 8 ranks."""
    of = [pair for pair in pairs if pair.ranks == 8 and pair.pipeline == "3DGS"]
    return next((arm for arm in PAPERS if any(pair.called(arm) in pair.sequence for pair in of)), "")
