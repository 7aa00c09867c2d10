"""The headline as one figure: throughput ratio of every run, and where a step's time goes. Draws, computes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from harness.measure.breakdown import PARTS
from harness.report.reduction import EXACT_REFERENCE
from harness.report.summary import Headline, Numbers
from harness.report.table import FAILED, failed_lines
from harness.store.files import replacing, write_text

WIDTH, ROW_HEIGHT, MARGINS = 6.9, 0.42, 1.15  # inches; the width of a text block of two columns
STYLE: dict[str, Any] = {
    "pdf.fonttype": 42,  # text stays text for a publisher's checks
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that a rerun elsewhere draws the same glyphs
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "odin",
}
# One colour per part of a step, in every figure: positions in seaborn's "colorblind".
COLOURS = dict(zip(PARTS, (2, 3, 1, 0, 4, 7), strict=True))
TICKS = (0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2, 2.5, 3, 4, 5, 7, 10, 20)
NOTE = (
    "Left: open circles are single runs, the stroke and the number an arm's ratio, the grey band the noise floor, the "
    "dashed line the limit; log axis. Right: mean over ranks, steps and runs; the number is the sum in ms."
)


def draw_headline(result: Headline) -> Figure:
    """Left: every run a dot, the arm's ratio a bar and a number, on a log axis with lines at 1 and at the limit.
    Right: milliseconds per step by part. An arm that failed a gate shows FAILED in place of numbers."""
    with mpl.rc_context(STYLE):
        height = ROW_HEIGHT * len(result.rows) + MARGINS
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasAgg(figure)
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1, 1.15))
        _ratios(left, result)
        _parts(right, result)
        left.set_yticks(range(len(result.rows)), [row.arm for row in result.rows])
        left.set_ylim(len(result.rows) - 0.45, -0.6)
        return figure


def write_headline_figure(result: Headline, folder: Path, stem: str = "headline") -> list[Path]:
    """PDF, PNG (200 dpi) and the caption as `<stem>_caption.txt`; a rerun writes the same bytes.

    Raises RunError when the disk refuses.
    """
    figure = draw_headline(result)
    paths = [folder / f"{stem}.pdf", folder / f"{stem}.png"]
    with mpl.rc_context(STYLE):
        with replacing(paths[0]) as temporary:
            figure.savefig(temporary, format="pdf", metadata={"CreationDate": None})
        with replacing(paths[1]) as temporary:
            figure.savefig(temporary, format="png", dpi=200)
    caption = folder / f"{stem}_caption.txt"
    write_text(caption, "\n".join([*failed_lines(result), NOTE, result.caption]) + "\n")
    return [*paths, caption]


def _ratios(axes: Axes, result: Headline) -> None:
    axes.set_xscale("log")
    shown = [1.0]
    floor = result.noise.overall.value
    if floor is not None:
        axes.axvspan(1 / (1 + floor), 1 + floor, color="0.9", lw=0, zorder=0)
    axes.axvline(1.0, color="0.3", lw=0.8, zorder=1)
    if result.limit.value is not None:
        axes.axvline(result.limit.value, color="0.3", lw=0.8, ls="--", zorder=1)
        _top_note(axes, result.limit.value, f"limit {result.limit.value:.2f}×")
        shown.append(result.limit.value)
    for y, row in enumerate(result.rows):
        if row.numbers is None:
            _failed(axes, 1.0, y, _in_same_order(result, row.arm))
            continue
        _dots(axes, y, row.numbers)
        shown += [row.numbers.speedup, *row.numbers.repeats]
    _ratio_axis(axes, min(shown), max(shown))
    axes.set_xlabel(f"throughput ÷ barrier ({_label(result)})")


def _dots(axes: Axes, y: int, numbers: Numbers) -> None:
    colour = sns.color_palette("colorblind")[0]
    axes.plot(numbers.repeats, [y] * len(numbers.repeats), "o", ms=4, mfc="none", mec=colour, mew=1.0, zorder=3)
    axes.plot([numbers.speedup], [y], "|", ms=13, mew=1.6, color=colour, zorder=2)
    # Above the dots, so that a number never covers a run; on white, so that no line crosses it.
    text = axes.annotate(f"{numbers.speedup:.2f}×", (numbers.speedup, y), (0, 8), textcoords="offset points")
    text.set(ha="center", va="bottom", bbox={"fc": "white", "ec": "none", "pad": 0.5})


def _ratio_axis(axes: Axes, low: float, high: float) -> None:
    # Room for half a number beside the outermost dot, in proportion to the range as the axis is logarithmic.
    room = max(1.03, (high / low) ** 0.12)
    axes.set_xlim(low / room, high * room)
    inside = [tick for tick in TICKS if low / room <= tick <= high * room**0.5]
    while len(inside) > 6:
        inside = [tick for k, tick in enumerate(inside) if (k - inside.index(1)) % 2 == 0]
    axes.xaxis.set_major_locator(FixedLocator(inside))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())


def _parts(axes: Axes, result: Headline) -> None:
    palette = sns.color_palette("colorblind")
    for part in PARTS:
        for y, row in enumerate(result.rows):
            if row.numbers is None:
                continue
            before = sum(_milliseconds(row.numbers, p) for p in PARTS[: PARTS.index(part)])
            width = _milliseconds(row.numbers, part)
            label = part if row is _first_shown(result) else None
            axes.barh(y, width, 0.62, before, color=palette[COLOURS[part]], label=label)
    for y, row in enumerate(result.rows):
        if row.numbers is None:
            _failed(axes, 0.0, y)
        else:
            total = sum(_milliseconds(row.numbers, part) for part in PARTS)
            axes.annotate(f"{total:.3g}", (total, y), (3, 0), textcoords="offset points", va="center")
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
    if _first_shown(result) is None:
        axes.set_xticks([])
    else:
        axes.legend(ncols=3, loc="lower left", bbox_to_anchor=(0, 1), frameon=False, handlelength=1, borderaxespad=0)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(f"ms per step ({_label(result)})")


def _in_same_order(result: Headline, arm: str) -> str:
    """What an arm that failed against barrier shows against barrier-planned, if it does."""
    found = next((row.numbers for row in result.same_order if row.arm == arm and row.numbers), None)
    return f" ({found.speedup:.2f}× barrier-planned)" if found and arm != EXACT_REFERENCE else ""


def _failed(axes: Axes, x: float, y: int, more: str = "") -> None:
    text = axes.annotate(FAILED + more, (x, y), (6, 0), textcoords="offset points", va="center", color="firebrick")
    text.set(bbox={"fc": "white", "ec": "none", "pad": 0.5})


def _milliseconds(numbers: Numbers, part: str) -> float:
    # A remainder of rounding may be below zero by nanoseconds; a bar cannot.
    return max(0.0, 1e3 * float(getattr(numbers.parts, part)))


def _first_shown(result: Headline) -> Any:
    return next((row for row in result.rows if row.numbers is not None), None)


def _label(result: Headline) -> str:
    return " / ".join(sorted({row.label for row in result.rows}))


def _top_note(axes: Axes, x: float, text: str) -> None:
    axes.annotate(text, (x, 1.0), (0, 2), xycoords=("data", "axes fraction"), textcoords="offset points", ha="center")
