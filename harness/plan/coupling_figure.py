"""Coupling between views in capture order and in planned order, and across the windows of each order.

Legend: V training views, B views per step.
"""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib as mpl
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from harness.plan.drawing import colour
from harness.report.figure import STYLE, WIDTH
from odin.planner import LocalityGraph

HEIGHT = 4.2  # inches
CELLS = 512  # more views than this are drawn as the largest coupling of blocks of views
ZOOMED_STEPS = 8
LINES = {"capture order": (3, ":"), "random order": (7, "--"), "annealing": (4, "-."), "plan": (0, "-")}


def draw_coupling(
    graph: LocalityGraph, planned: NDArray[np.int64], batch: int, across: Mapping[str, NDArray[np.float64]]
) -> Figure:
    """Left: the matrix in capture order and in planned order, whole and its first steps. Right: share of windows whose
    largest coupling is at most x, for each order.

    planned: int64 [V], views in the order in which the plan first trains them
    across:  order → float64 [S-1], largest coupling across each window
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.add_gridspec(2, 3, width_ratios=(1, 1, 1))
        strongest = float(np.quantile(graph.weights, 0.99)) if len(graph.weights) else 1.0
        norm = Normalize(vmin=0, vmax=strongest)
        shown = []
        for column, (name, order) in enumerate(
            (("capture order", np.arange(graph.view_count)), ("planned order", planned))
        ):
            whole, near = figure.add_subplot(grid[0, column]), figure.add_subplot(grid[1, column])
            shown += [_whole(whole, graph, order, norm), _zoom(near, graph, order, batch, norm)]
            whole.set_title(name, fontsize=8)
        axes = [part.axes for part in shown]
        bar = figure.colorbar(shown[0], ax=axes, location="bottom", shrink=0.6, aspect=40, pad=0.02, extend="max")
        bar.set_label("coupling of two views (white: none)")
        bar.outline.set_visible(False)
        _windows(figure.add_subplot(grid[:, 2]), across)
        return figure


def coupling_matrix(graph: LocalityGraph, order: NDArray[np.int64], cells: int = CELLS) -> NDArray[np.float32]:
    """Weights between views in an order (some or all views), float32 [M, M] with M ≤ cells; a cell that stands for
    several views has the largest weight among them; the diagonal is nan."""
    place = np.full(graph.view_count, -1)
    place[order] = np.arange(len(order)) * min(cells, len(order)) // max(len(order), 1)
    matrix = np.zeros((min(cells, len(order)),) * 2, np.float32)
    rows, columns = place[np.repeat(np.arange(graph.view_count), graph.degree)], place[graph.neighbours]
    known = (rows >= 0) & (columns >= 0)
    np.maximum.at(matrix, (rows[known], columns[known]), graph.weights[known])
    if len(order) <= cells:
        np.fill_diagonal(matrix, np.nan)
    return matrix


def _whole(axes: Axes, graph: LocalityGraph, order: NDArray[np.int64], norm: Normalize) -> AxesImage:
    image = _matrix(axes, coupling_matrix(graph, order), len(order), norm)
    axes.set_xticks([0, len(order)])
    axes.set_yticks([0, len(order)])
    axes.set_ylabel("view", labelpad=-8)
    return image


def _zoom(axes: Axes, graph: LocalityGraph, order: NDArray[np.int64], batch: int, norm: Normalize) -> AxesImage:
    """The first steps, with lines between them: what matters are the blocks beside the diagonal."""
    steps = max(min(ZOOMED_STEPS, len(order) // batch), 1)
    image = _matrix(axes, coupling_matrix(graph, order[: steps * batch]), steps, norm)
    for edge in range(1, steps):
        axes.axhline(edge, color="0.7", lw=0.4)
        axes.axvline(edge, color="0.7", lw=0.4)
    axes.set_xticks(np.arange(steps) + 0.5, [str(step) for step in range(steps)])
    axes.set_yticks(np.arange(steps) + 0.5, [str(step) for step in range(steps)])
    axes.tick_params(length=0)
    axes.set_ylabel("step")
    return image


def _matrix(axes: Axes, matrix: NDArray[np.float32], extent: int, norm: Normalize) -> AxesImage:
    cmap = sns.color_palette("mako_r", as_cmap=True).with_extremes(bad="white")
    drawn = np.where(matrix > 0, matrix, np.nan)
    image = axes.imshow(drawn, cmap=cmap, norm=norm, extent=(0, extent, extent, 0), interpolation="nearest")
    for side in ("top", "right", "bottom", "left"):
        axes.spines[side].set(visible=True, color="0.6", linewidth=0.5)
    return image


def _windows(axes: Axes, across: Mapping[str, NDArray[np.float64]]) -> None:
    known = {name: couplings for name, couplings in across.items() if len(couplings)}  # one step has no windows
    for name, couplings in known.items():
        position, dashes = LINES.get(name, (5, "-"))
        values = np.sort(couplings)
        share = np.arange(1, len(values) + 1) / len(values)
        label = f"{name} (mean {couplings.mean():.3f})"
        axes.step([0, *values], [0, *share], where="post", color=colour(position), ls=dashes, lw=1.4, label=label)
    axes.set_xlim(left=-0.015)  # what lies at 0 has to be seen
    axes.set_ylim(0, 1.01)
    axes.set_xlabel("largest coupling across a window")
    axes.set_ylabel("share of windows at or below")
    if known:
        # Below the axes, beside the colour bar: no corner is free of lines for every capture.
        axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, -0.14), handlelength=2.2, borderaxespad=0)
