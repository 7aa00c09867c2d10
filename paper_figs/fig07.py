"""Fig. 7: the two-slot gradient ring of the Shadow Graph, as recorded: what each slot holds while a rank computes."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from harness.measure.slots import STATES, in_use, slot_spans, state_shares
from harness.plan.drawing import colour
from harness.report.figure import COLOURS
from odin.phases import Category
from paper_figs.cells import Cells, Pair, place
from paper_figs.drawing import in_style, sheet
from paper_figs.exhibit import Need, Study
from paper_figs.tidy import Rows

name = "fig7"
title = "Fig. 7: Slots of the Shadow Graph, as recorded"
note = (
    "One rank of four over a few steps, a panel per arm: what it does, and what the two slots of the gradient ring "
    "hold (numbers are steps). accumulating: the step's backward adds to it; travelling: the backward is over and its "
    "last segment has not arrived; pending: all has arrived, some rows are not updated yet; free: published (black "
    "mark). Under a barrier one slot is in use at a time; in the others a step computes while its predecessor travels. "
    "The paper's figure is a drawing; this is from a recorded timeline, in which nothing was added for it."
)
needs: tuple[Need, ...] = (Study(role="timeline"),)
ARMS = ("barrier", "quality", "predicted")
SHOWN, RANK = 4, 0
SHADES = {"accumulating": colour(9), "travelling": colour(1), "pending": colour(8)}
WORK = {Category.USEFUL.value: "useful", Category.ODIN.value: "odin", Category.STRUCTURAL.value: "structural",
        Category.WAIT.value: "transfer"}  # fmt: skip
NAMES = {"useful": "computes", "odin": "odin", "structural": "structural", "transfer": "waits"}


def rows(cells: Cells) -> pd.DataFrame:
    """slot_… shares of the time by arm, over slots and ranks, and both_slots_in_use."""
    found = Rows(name)
    for pair in cells.pairs("timeline")[:1]:
        for arm in ARMS:
            frames = pair.frames(arm)
            if frames is None:
                continue
            spans, own = slot_spans(frames[0]), place([pair], arm=arm, unit="share")
            for state, share in state_shares(spans).items():
                found.add(f"slot_{state}", share, **own)
            found.add("both_slots_in_use", in_use(spans), **own)
    return found.frame()


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """A panel per arm on one time axis."""
    pair = next(iter(cells.pairs("timeline")), None)
    arms = [arm for arm in ARMS if pair is not None and pair.frames(arm) is not None]
    if pair is None or not arms:
        return None
    with sheet(0.95 * len(arms) + 0.7, len(arms), 1, sharex=True) as (figure, grid):
        lengths = [_panel(axes, pair, arm) for axes, arm in zip(grid[:, 0], arms, strict=True)]
        grid[-1, 0].set_xlim(0, max(lengths))
        grid[-1, 0].set_xlabel(f"ms ({pair.label})")
        shades = SHADES | {NAMES[part]: colour(COLOURS[part]) for part in ("useful", "odin", "transfer", "structural")}
        handles = [Patch(facecolor=shade, label=text) for text, shade in shades.items()]
        handles.append(Patch(facecolor="white", edgecolor="0.6", label=STATES[-1]))
        figure.legend(handles=handles, loc="outside upper center", ncols=8, frameon=False, handlelength=1.2,
                      columnspacing=1.0, handletextpad=0.4)  # fmt: skip
        return figure


def _panel(axes: Axes, pair: Pair, arm: str) -> float:
    """Draw an arm; how long its steps take together, ms."""
    frames = pair.frames(arm)
    assert frames is not None
    timeline, steps = frames
    first = max(0, min(int(steps["step"].max()) // 2, int(steps["step"].max()) + 1 - SHOWN))
    shown = steps[steps["step"].between(first, first + SHOWN - 1)]
    start, stop = float(shown["start"].min()), float(shown["end"].max())
    inside = timeline[(timeline["rank"] == RANK) & (timeline["end"] > start) & (timeline["start"] < stop)]
    for part, own in inside[inside["category"] != Category.LINK.value].groupby("category"):
        bars = [(1e3 * (s - start), 1e3 * (e - s)) for s, e in zip(own["start"], own["end"], strict=True)]
        axes.broken_barh(bars, (0.12, 0.76), facecolor=colour(COLOURS[WORK[str(part)]]), edgecolor="white", lw=0.2)
    spans = slot_spans(timeline)
    _slots(axes, spans[(spans["rank"] == RANK) & (spans["end"] > start) & (spans["start"] < stop)], start)
    axes.set_yticks([0.5, 1.5, 2.5], [f"rank {RANK}", "slot 0", "slot 1"])
    axes.set_ylim(3, 0)
    axes.tick_params(axis="y", length=0)
    axes.set_title(arm, loc="left", fontsize=8, pad=2)
    return 1e3 * (stop - start)


def _slots(axes: Axes, spans: pd.DataFrame, start: float) -> None:
    for span in spans.to_dict("records"):
        x, width, y = 1e3 * (span["start"] - start), 1e3 * (span["end"] - span["start"]), span["slot"] + 1.12
        if span["state"] == "free":
            axes.broken_barh([(x, width)], (y, 0.76), facecolor="white", edgecolor="0.6", lw=0.4)
            if span["step"] >= 0:
                axes.plot([x, x], [y, y + 0.76], "-", color="black", lw=1.8, solid_capstyle="butt", zorder=4)
            continue
        axes.broken_barh([(x, width)], (y, 0.76), facecolor=SHADES[span["state"]], edgecolor="white", lw=0.2)
        if span["state"] == "accumulating":
            text = axes.text(x + width / 2, y + 0.38, str(span["step"]), fontsize=6.5, ha="center", va="center")
            text.set_clip_on(True)
