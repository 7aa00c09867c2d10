"""Ranks × phases over a few steps, one panel per cell, all on one time axis. Draws, computes nothing but splits of
waits into their two parts (`harness.measure.breakdown`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from harness.report.figure import COLOURS, STYLE, WIDTH
from odin.phases import Phase

LANE, PANEL, TOP = 0.17, 0.42, 0.75  # inches: a rank, what a panel needs besides, legend and axis label
_BACKWARD = {Phase.BLEND_BACKWARD, Phase.COLOUR_BACKWARD, Phase.PROJECTION_BACKWARD}
_UPDATE = {Phase.UPDATE, Phase.CLEAR, Phase.DDP}
_GREENS = sns.light_palette(sns.color_palette("colorblind")[COLOURS["useful"]], 5)
_PALETTE = sns.color_palette("colorblind")

# In the order of the legend. Hues are those of the parts of a step everywhere else; kinds of useful work differ in
# lightness, which everybody sees.
FAMILIES = {
    "forward, loss": _GREENS[2],
    "backward": _GREENS[4],
    "update": tuple(0.55 * c for c in _GREENS[4][:3]),
    "odin": _PALETTE[COLOURS["odin"]],
    "structural": _PALETTE[COLOURS["structural"]],
    "wait: transfer": _PALETTE[COLOURS["transfer"]],
    "wait: skew": _PALETTE[COLOURS["skew"]],
    "link": (0.45, 0.45, 0.45),
}
HATCHES = {"wait: transfer": "////", "wait: skew": "...."}
NOTE = (
    "Each lane is a rank, the lowest one the link that all share; time starts with the first step shown, on one axis "
    "for all panels. Thin lines: the last rank has finished a step. Hatched: the rank idles, for the transfer itself "
    "or for a slower rank that has not joined yet (skew)."
)


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One cell. start: s, of the first step shown; ends: s, of each; first: its number; label: of evidence."""

    name: str
    ranks: int
    timeline: pd.DataFrame
    start: float
    ends: tuple[float, ...]
    first: int
    label: str


def draw_gantt(panels: Sequence[Panel]) -> Figure:
    """The picture; every panel as long as the slowest."""
    with mpl.rc_context(STYLE | {"hatch.linewidth": 0.5}):
        heights = [LANE * (panel.ranks + 1) + PANEL for panel in panels]
        figure = Figure(figsize=(WIDTH, sum(heights) + TOP), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        length = max(panel.ends[-1] - panel.start for panel in panels)
        present: set[str] = set()
        for one, panel in zip(axes, panels, strict=True):
            present |= _panel(one, panel, length)
        axes[-1].set_xlim(0, 1e3 * length)
        axes[-1].set_xlabel(f"ms ({' / '.join(sorted({panel.label for panel in panels}))})")
        figure.legend(
            handles=[_patch(name) for name in FAMILIES if name in present],
            loc="outside upper center", ncols=8, frameon=False, handlelength=1.2, columnspacing=1.0, handletextpad=0.4,
        )  # fmt: skip
        return figure


def _patch(name: str) -> Patch:
    return Patch(facecolor=FAMILIES[name], hatch=HATCHES.get(name), edgecolor="white", linewidth=0, label=name)


def _panel(axes: Axes, panel: Panel, length: float) -> set[str]:
    """Draw a cell; which families it shows."""
    frame = panel.timeline
    inside = frame[(frame["end"] > panel.start) & (frame["start"] < panel.start + length)]
    bars = _bars(inside)
    for (family, lane), group in bars.groupby(["family", "lane"], sort=False):
        spans = [(1e3 * (s - panel.start), 1e3 * (e - s)) for s, e in zip(group["start"], group["end"], strict=True)]
        low, height = (lane + 0.22, 0.56) if family == "link" else (lane + 0.08, 0.84)
        axes.broken_barh(
            spans, (low, height), facecolor=FAMILIES[family], edgecolor="white", linewidth=0.25,
            hatch=HATCHES.get(family),
        )  # fmt: skip
    for end in panel.ends:
        axes.axvline(1e3 * (end - panel.start), color="0.2", lw=0.6, zorder=3)
    axes.set_yticks([k + 0.5 for k in range(panel.ranks + 1)], [*map(str, range(panel.ranks)), "link"])
    axes.set_ylim(panel.ranks + 1, 0)
    axes.tick_params(axis="y", length=0, pad=2, labelsize=6.5)
    axes.set_ylabel("rank")
    axes.set_title(
        f"{panel.name}: {1e3 * (panel.ends[-1] - panel.start) / len(panel.ends):.3g} ms per step over steps "
        f"{panel.first} to {panel.first + len(panel.ends) - 1}", loc="left", fontsize=8, pad=3,
    )  # fmt: skip
    return set(bars["family"])


def _bars(frame: pd.DataFrame) -> pd.DataFrame:
    """What is drawn: family, lane, start, end; waits in their two parts. Collectives are drawn once, below ranks."""
    phases = frame[frame["kind"] == "phase"]
    waits = frame[frame["kind"] == "wait"]
    links = frame[(frame["kind"] == "collective")].drop_duplicates(["name", "start", "end"])
    joined = waits["last_join"].clip(lower=waits["start"], upper=waits["end"])
    lowest = int(frame["rank"].max()) + 1 if len(frame) else 0
    parts = [
        pd.DataFrame(
            {"family": _families(phases), "lane": phases["rank"], "start": phases["start"], "end": phases["end"]}
        ),
        pd.DataFrame({"family": "wait: skew", "lane": waits["rank"], "start": waits["start"], "end": joined}),
        pd.DataFrame({"family": "wait: transfer", "lane": waits["rank"], "start": joined, "end": waits["end"]}),
        pd.DataFrame({"family": "link", "lane": lowest, "start": links["start"], "end": links["end"]}),
    ]
    bars = pd.concat(parts, ignore_index=True)
    return bars[bars["end"] > bars["start"]]


def _families(phases: pd.DataFrame) -> list[str]:
    useful = {p.value: "backward" for p in _BACKWARD} | {p.value: "update" for p in _UPDATE}
    return [
        useful.get(name, "forward, loss") if category == "useful" else category
        for name, category in zip(phases["name"], phases["category"], strict=True)
    ]
