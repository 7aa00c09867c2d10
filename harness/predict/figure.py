"""A prediction as one picture: throughput by ranks, and where a step of the largest rank count goes."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from harness.measure.breakdown import PARTS
from harness.predict.table import LABEL, Results
from harness.report.figure import COLOURS, STYLE, WIDTH
from harness.report.summary import BASELINE
from harness.store.files import replacing

HEIGHT = 3.0  # inches
MARKERS = "osD^vPX*<>"


def draw(results: Results, title: str) -> Figure:
    """Left: images/s over ranks, log-log, with the baseline's first point scaled as a dashed line. Right: milliseconds
    of a step by part at the most ranks."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        FigureCanvasAgg(figure)
        left, right = figure.subplots(1, 2, width_ratios=(1.1, 1))
        _throughput(left, results)
        _parts(right, results)
        figure.suptitle(title, fontsize=8)
        return figure


def write(results: Results, title: str, folder: Path) -> list[Path]:
    """PDF and PNG (200 dpi); a rerun writes the same bytes. Raises RunError when the disk refuses."""
    figure = draw(results, title)
    paths = [folder / "predict.pdf", folder / "predict.png"]
    with mpl.rc_context(STYLE):
        with replacing(paths[0]) as temporary:
            figure.savefig(temporary, format="pdf", metadata={"CreationDate": None})
        with replacing(paths[1]) as temporary:
            figure.savefig(temporary, format="png", dpi=200)
    return paths


def _throughput(axes: Axes, results: Results) -> None:
    palette, counts = sns.color_palette("colorblind"), list(results)
    names = [p.arm.name for p in results[counts[0]]]
    for place, name in enumerate(names):
        values = [next(p for p in arms if p.arm.name == name).images_per_second for arms in results.values()]
        style = {"color": palette[place % len(palette)], "marker": MARKERS[place % len(MARKERS)]}
        axes.plot(counts, values, ms=4, lw=1.2, label=name, zorder=3, **style)
        if name == BASELINE:
            ideal = [values[0] * count / counts[0] for count in counts]
            axes.plot(counts, ideal, color="0.4", lw=0.8, ls="--", label=f"{BASELINE}, ideal", zorder=2)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(counts))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())
    axes.set_xlabel("ranks")
    axes.set_ylabel(f"images/s ({LABEL})")
    axes.legend(frameon=False, loc="upper left", handlelength=2)


def _parts(axes: Axes, results: Results) -> None:
    palette, most = sns.color_palette("colorblind"), max(results)
    arms = results[most]
    for place, p in enumerate(arms):
        before = 0.0
        for part in PARTS:
            # A remainder of rounding may be below zero by nanoseconds; a bar cannot.
            width = max(0.0, 1e3 * float(getattr(p.parts, part)))
            label = part if place == 0 else None
            axes.barh(place, width, 0.62, before, color=palette[COLOURS[part]], label=label)
            before += width
        axes.annotate(f"{before:.3g}", (before, place), (3, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(arms)), [p.arm.name for p in arms])
    axes.set_ylim(len(arms) - 0.5, -0.6)
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(f"ms per step at {most} ranks ({LABEL})")
    axes.legend(ncols=3, loc="lower left", bbox_to_anchor=(0, 1), frameon=False, handlelength=1, borderaxespad=0)
