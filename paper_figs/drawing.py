"""What all pictures share: sizes, one colour and marker per arm and per pipeline, ratio axes, the paper's mark and that
of an arm without a number."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from harness.plan.drawing import colour
from harness.report.figure import STYLE, WIDTH
from paper_figs.cells import Pair, speedups

P = ParamSpec("P")
NARROW = 3.3  # inches, one column; WIDTH is two
PIPELINES = {"3DGS": 0, "2DGS": 2, "TamingGS": 1, "DashGS": 4, "Grendel": 5}
# Odin's ways and the waiting arms, everywhere in the same colour and with the same mark.
ARMS: dict[str, tuple[str, str]] = {
    "barrier": ("0.62", "s"),
    "barrier-planned": ("0.35", "d"),
    "throughput": (colour(0), "o"),
    "quality": (colour(2), "^"),
    "predicted": (colour(3), "D"),
    "quality-random": (colour(2), ">"),
    "predicted-random": (colour(3), "p"),
    "paper-quality": (colour(5), "v"),
    "quality:groups=off": (colour(4), "<"),
    "ddp": ("0.45", "P"),
}
OTHERS = "PHh8>p"  # neither the paper's star nor the cross of what failed
SPEEDUP = "speedup over barrier"
FAILED = "failed a gate"
PAPER_MARK: dict[str, Any] = {"marker": "*", "ms": 8, "mfc": "white", "mec": "black", "mew": 0.9, "ls": "none"}
TICKS = (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.7, 2, 2.5, 3, 4, 5, 6, 8, 10, 16, 32, 64, 100, 200, 300)


def in_style(draw: Callable[P, Figure | None]) -> Callable[P, Figure | None]:
    """Draw under the project's settings, which do not leak."""

    @wraps(draw)
    def styled(*args: P.args, **kwargs: P.kwargs) -> Figure | None:
        with mpl.rc_context(STYLE):
            return draw(*args, **kwargs)

    return styled


@contextmanager
def canvas(
    height: float, columns: int = 1, *, width: float = WIDTH, **grid: Any
) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure of that many panels side by side."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    yield figure, list(figure.subplots(1, columns, squeeze=False, **grid)[0])


@contextmanager
def sheet(height: float, lines: int, columns: int, **grid: Any) -> Iterator[tuple[Figure, Any]]:
    """A figure with a grid of panels, an array [lines, columns] of axes."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    FigureCanvasAgg(figure)
    yield figure, figure.subplots(lines, columns, squeeze=False, **grid)


def arm_style(arm: str) -> dict[str, Any]:
    """Colour and marker of an arm; an arm without its own has one by its name."""
    if arm in ARMS:
        shade, marker = ARMS[arm]
    else:
        place = sum(map(ord, arm))
        shade, marker = colour((4, 6, 7, 9)[place % 4]), OTHERS[place % len(OTHERS)]
    return {"color": shade, "marker": marker}


def without_number(groups: Iterable[Sequence[Pair]], arms: Sequence[str]) -> list[tuple[Sequence[Pair], str]]:
    """Groups of one place and arms of which none of their pairs has a number, though it was to run there."""
    return [
        (group, arm)
        for group in groups
        for arm in arms
        if any(pair.called(arm) in pair.sequence for pair in group) and not speedups(group, arm)
    ]


def failed_mark(axes: Axes, x: float, y: float, arm: str, **more: Any) -> None:
    """A cross in the arm's colour where its number would be; `failed_legend` explains it."""
    style = {"ls": "none", "marker": "x", "ms": 4.5, "mew": 1.3, "color": arm_style(arm)["color"], "zorder": 4}
    axes.plot(x, y, clip_on=False, **style | more)


def failed_legend() -> dict[str, Line2D]:
    """An entry of a legend for crosses."""
    return {FAILED: Line2D([], [], ls="none", marker="x", ms=4.5, mew=1.3, color="0.2")}


def ratio_axis(axis: Any, axes: Axes, values: Iterable[float], *, unit: str = "×", most: int = 7) -> None:
    """A logarithmic axis with plain ticks around the values and a line at 1, which is always inside."""
    inside = [*values, 1.0]
    room = max(1.04, (max(inside) / min(inside)) ** 0.1)
    low, high = min(inside) / room, max(inside) * room
    horizontal = axis is axes.xaxis
    (axes.set_xscale if horizontal else axes.set_yscale)("log")
    (axes.set_xlim if horizontal else axes.set_ylim)(low, high)
    (axes.axvline if horizontal else axes.axhline)(1.0, color="0.3", lw=0.8, zorder=1)
    ticks = [tick for tick in TICKS if low <= tick <= high]
    while len(ticks) > most:
        ticks = [tick for place, tick in enumerate(ticks) if (place - ticks.index(1)) % 2 == 0]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}{unit}"))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def legend_above(axes: Axes, columns: int = 4, *, extra: Mapping[str, Any] | None = None) -> None:
    """A legend over the axes, each name once."""
    handles, names = axes.get_legend_handles_labels()
    unique = dict(zip(names, handles, strict=True)) | dict(extra or {})
    axes.legend(
        unique.values(), unique.keys(), ncols=columns, loc="lower left", bbox_to_anchor=(0, 1.0), frameon=False,
        handlelength=1.3, borderaxespad=0.2, columnspacing=1.0, handletextpad=0.5,
    )  # fmt: skip


def legend_outside(
    figure: Figure, panels: Sequence[Axes], columns: int = 5, *, extra: Mapping[str, Any] | None = None
) -> None:
    """One legend for several panels, over all of them, each name once."""
    unique: dict[str, Any] = {}
    for axes in panels:
        for handle, text in zip(*axes.get_legend_handles_labels(), strict=True):
            unique.setdefault(text, handle)
    unique |= dict(extra or {})
    figure.legend(
        unique.values(), unique.keys(), ncols=columns, loc="outside upper center", frameon=False, handlelength=1.3,
        columnspacing=1.0, handletextpad=0.5,
    )  # fmt: skip


def plain_log(axis: Any) -> None:
    """Ticks of a logarithmic axis at 1, 2 and 5 times powers of ten, written out."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def decades(axis: Any) -> None:
    """Ticks of a logarithmic axis at powers of ten alone, for a wide range on little room."""
    axis.set_major_locator(LogLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_locator(NullLocator())


def short(scenes: Sequence[str]) -> list[str]:
    """Names of scenes for an axis: procedural sizes left out where that confuses none."""
    cut = [scene.partition("-")[0] for scene in scenes]
    return cut if len(set(cut)) == len(set(scenes)) else list(scenes)


def dots(
    axes: Axes,
    rows: pd.DataFrame,
    by: str,
    places: Sequence[str],
    *,
    scale: float = 1.0,
    arms: Sequence[str] = (),
    failed: Collection[tuple[str, str]] = (),
) -> None:
    """One line per place (values of column `by`), a mark per arm with its interval, and the paper's star.

    rows:   tidy rows
    scale:  what a value is multiplied with
    arms:   in the order in which they lie below each other; by default that of the rows
    failed: (place, arm) without a ratio, a cross at 1
    """
    there = [*rows["arm"], *(arm for _, arm in failed)]
    arms = [arm for arm in arms or dict.fromkeys(there) if arm in there]
    step = 0.62 / max(len(arms), 1)

    def line(place: str, arm: str) -> float:
        return places.index(place) + (arms.index(arm) - (len(arms) - 1) / 2) * step

    for arm in arms:
        for row in rows[rows["arm"] == arm].to_dict("records"):
            y, style = line(row[by], arm), arm_style(arm)
            if row["low"] == row["low"]:
                axes.plot(
                    [scale * row["low"], scale * row["high"]], [y, y], "-", color=style["color"], lw=1.2, zorder=2
                )
            axes.plot(scale * row["value"], y, ls="none", ms=5.5, mec="white", mew=0.4, label=arm, zorder=3, **style)
            if row["paper"] == row["paper"]:
                axes.plot(scale * row["paper"], y, **PAPER_MARK, label="paper", zorder=4)
    for place, arm in failed:
        failed_mark(axes, 1.0, line(place, arm), arm)
    axes.set_yticks(range(len(places)), short(places) if by == "scene" else list(places))
    axes.set_ylim(len(places) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
