"""Idle share of every rank (the paper's Fig. 1) and the parts of a step (its Fig. 19), one line per cell."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from harness.measure.breakdown import PARTS, Breakdown, compare
from harness.report.caption import PAPER_IDLE
from harness.report.figure import COLOURS, MARGINS, ROW_HEIGHT, STYLE, WIDTH
from harness.store.record import Reading

BASELINE = "barrier"
NOTE = (
    "Left: share of the time that each rank waits (circles), their mean (stroke) and the range from the least to the "
    f"most idle rank; grey: {PAPER_IDLE[0]:.0f} to {PAPER_IDLE[1]:.0f} %, the paper's Fig. 1. Right: mean over ranks "
    "and steps; the number is the sum in ms and, against barrier, the share of lost time that is hidden (the paper's "
    "Fig. 19: 82 %)."
)


def draw_idle(cells: Sequence[tuple[str, Breakdown]], label: str) -> Figure:
    """cells: (arm, breakdown) in the order in which they are drawn; label: of evidence."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, ROW_HEIGHT * len(cells) + MARGINS), layout="constrained")
        FigureCanvasAgg(figure)
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1, 1.25))
        _idle(left, cells, label)
        _parts(right, cells, label)
        left.set_yticks(range(len(cells)), [name for name, _ in cells])
        left.set_ylim(len(cells) - 0.45, -0.6)
        return figure


def _idle(axes: Axes, cells: Sequence[tuple[str, Breakdown]], label: str) -> None:
    colour = sns.color_palette("colorblind")[0]
    axes.axvspan(*PAPER_IDLE, color="0.92", lw=0, zorder=0)
    for y, (_, parts) in enumerate(cells):
        shares = [100 * share for share in parts.idle_by_rank]
        mean = sum(shares) / len(shares)
        axes.plot([min(shares), max(shares)], [y, y], "-", color=colour, lw=1.0, zorder=2)
        axes.plot(shares, [y] * len(shares), "o", ms=3.5, mfc="white", mec=colour, mew=0.9, zorder=3)
        axes.plot([mean], [y], "|", ms=12, mew=1.6, color=colour, zorder=4)
        text = f"{mean:.0f} % ({min(shares):.0f}–{max(shares):.0f})"
        low = mean < 0.2 * PAPER_IDLE[1]  # a centred text would cross the axis
        side = "left" if low else "center"
        at, offset = (min(shares) if low else mean, y), (-3 if low else 0, 7)
        axes.annotate(text, at, offset, textcoords="offset points", ha=side, va="bottom", fontsize=7)
    widest = max(100 * max(parts.idle_by_rank) for _, parts in cells)
    middle = sum(PAPER_IDLE) / 2
    axes.annotate("paper", (middle, 1.0), (0, 2), xycoords=("data", "axes fraction"), textcoords="offset points",
                  ha="center", color="0.4", fontsize=7)  # fmt: skip
    axes.set_xlim(-0.06 * max(widest, PAPER_IDLE[1]), 1.14 * max(widest, PAPER_IDLE[1]))
    axes.set_xlabel(f"idle share of a rank, % ({label})")
    axes.tick_params(axis="y", length=0)


def _percent(share: Reading) -> str:
    """Whole percent, never a negative zero; or the reason why there is none."""
    return str(share.reason) if share.value is None else f"{round(100 * share.value) + 0} %"


def _parts(axes: Axes, cells: Sequence[tuple[str, Breakdown]], label: str) -> None:
    palette, baseline = sns.color_palette("colorblind"), dict(reversed(cells)).get(BASELINE)
    for y, (name, parts) in enumerate(cells):
        left = 0.0
        for part in PARTS:
            # A remainder of rounding may be below zero by nanoseconds; a bar cannot.
            width = max(0.0, 1e3 * float(getattr(parts, part)))
            axes.barh(y, width, 0.62, left, color=palette[COLOURS[part]], label=part if y == 0 else None)
            left += width
        hidden = ""
        if baseline is not None and name != BASELINE and (baseline.ranks, baseline.steps) == (parts.ranks, parts.steps):
            hidden = f", hides {_percent(compare(parts, baseline).hidden)}"
        axes.annotate(f"{left:.3g}{hidden}", (left, y), (3, 0), textcoords="offset points", va="center", fontsize=7)
    axes.set_xlim(0, 1.3e3 * max(parts.step for _, parts in cells))
    axes.legend(ncols=3, loc="lower left", bbox_to_anchor=(0, 1), frameon=False, handlelength=1, borderaxespad=0)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(f"ms per step ({label})")
