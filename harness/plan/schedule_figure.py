"""The schedule before and after planning, ranks × time, from the phase task graph (Fig. 6 of the paper).

Legend: S steps, W ranks, U views per unit, V training views.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from numpy.typing import NDArray

from harness.plan.drawing import CHECKED, SENT, UPDATED, colour, region_colour
from harness.plan.durations import views_of
from harness.report.figure import STYLE, WIDTH
from odin.planner.timing import LINK, Placed

MOST_RANKS = 8
ROW, MARGINS = 0.2, 1.2  # inches
# Task of the front → opacity.
COMPUTE = {"project": 0.55, "leading views": 1.0, "render": 1.0, "colour backward": 0.78, "geometry backward": 0.78}
CHECKS = ("validate", "scopes", "zero step")


@dataclass(frozen=True, kw_only=True)
class Lane:
    """One panel.

    title:  what it shows
    tasks:  placed tasks of its steps
    region: int32 [S, W, U], region of every view trained
    """

    title: str
    tasks: Sequence[Placed]
    region: NDArray[np.int32]

    @property
    def end(self) -> float:
        """When the last task is done."""
        return max(task.end for task in self.tasks)


def draw_schedule(panels: Sequence[Lane], *, unit: str, scale: float, regions: int) -> Figure:
    """One panel below the other on one time axis.

    unit, scale: name of the axis' unit and how many of it a second is
    regions:     K, 0 where the order has none
    """
    ranks = min(panels[0].region.shape[1], MOST_RANKS)
    with mpl.rc_context(STYLE):
        height = len(panels) * (ROW * (ranks + 1) + 0.35) + MARGINS
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for at, panel in zip(axes, panels, strict=True):
            _panel(at, panel, ranks, scale)
        axes[0].set_xlim(0, max(panel.end for panel in panels) * scale * 1.005)
        axes[-1].set_xlabel(f"time ({unit})")
        figure.legend(
            handles=_keys(regions), loc="outside lower center", ncols=4, frameon=False, handlelength=1.2, fontsize=7
        )
        return figure


def _panel(axes: Axes, panel: Lane, ranks: int, scale: float) -> None:
    for task in panel.tasks:
        if task.rank >= ranks or task.end <= task.start:
            continue
        row = ranks if task.rank == LINK else task.rank
        left, width = task.start * scale, (task.end - task.start) * scale
        if task.name in COMPUTE:
            _compute(axes, panel, task, row, left, width)
        else:
            _block(axes, left, row - 0.42, width, 0.84, **_style(task))
    axes.axvline(panel.end * scale, color="0.3", lw=0.8, ls=":")
    axes.set_ylim(ranks + 0.55, -0.55)
    axes.set_yticks(range(ranks + 1), [*(f"rank {rank}" for rank in range(ranks)), "link"])
    axes.tick_params(axis="y", length=0)
    axes.set_title(panel.title, loc="left", fontsize=8)


def _compute(axes: Axes, panel: Lane, task: Placed, row: int, left: float, width: float) -> None:
    """The views that the task works on share the height, each in its region's colour."""
    unit = panel.region.shape[2]
    region = panel.region[task.step, task.rank, views_of(task.name, unit)]
    height = 0.84 / len(region)
    for place, of in enumerate(region):
        top = row - 0.42 + place * height
        _block(axes, left, top, width, height, fc=region_colour(int(of)), alpha=COMPUTE[task.name])
    if task.name == ("render" if unit == 1 else "leading views"):
        text = axes.text(left + width / 2, row, str(task.step), ha="center", va="center", fontsize=6.5)
        text.set(color="white", fontweight="bold", clip_on=True)


def _style(task: Placed) -> dict[str, str | float]:
    if task.rank == LINK:
        return {"fc": colour(SENT), "alpha": 0.45 if task.name == "rest" else 1.0}
    return {"fc": colour(CHECKED if task.name in CHECKS else UPDATED)}


def _block(axes: Axes, left: float, top: float, width: float, height: float, **style: Any) -> None:
    axes.add_patch(Rectangle((left, top), width, height, ec="white", lw=0.4, **style))


def _keys(regions: int) -> list[Patch]:
    keys = [Patch(fc=region_colour(k), label=f"compute, region {k}") for k in range(min(regions, 6))]
    keys = keys or [Patch(fc=region_colour(-1), label="compute")]
    keys += [
        Patch(fc=colour(SENT), label="gradient on the link"),
        Patch(fc=colour(SENT), alpha=0.45, label="… that nobody waits for"),
        Patch(fc=colour(UPDATED), label="update"),
        Patch(fc=colour(CHECKED), label="scopes, hazards, zero step"),
        Patch(fc="white", ec="0.6", lw=0.5, label="idle"),
    ]
    return keys
