"""The headline: means over the matrix, what is hidden, quality, the city and planning, beside targets and the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from harness.report.clocks import DETERMINISTIC
from harness.report.links import by_construction, fitted
from harness.store.schema import Label
from paper_figs.borrowed import add_admission, add_city, add_memory, add_plans, add_processes, add_seeds
from paper_figs.cells import Cells, Pair, source
from paper_figs.drawing import PAPER_MARK, SPEEDUP, WIDTH, arm_style, canvas, in_style, legend_above, ratio_axis
from paper_figs.exhibit import Need, Study
from paper_figs.matrix import ARMS, add_hidden, add_jitter, add_limits, add_speedups, ratios
from paper_figs.matrix_quality import add_audits, add_bits, add_quality
from paper_figs.tidy import Rows, evidence
from paper_figs.verdict import verdicts

__all__ = ["ARMS", "draw", "name", "needs", "note", "remarks", "rows", "title", "verdicts"]

name = "headline"
title = "Headline: mean speedup over the matrix"
note = (
    "Arithmetic means over pipelines × scenes of the matrix, as the paper's; dots are cells, the large marks their "
    "mean with the number of cells behind it: a cell that fails the quality band has no ratio, and means over "
    "different cells do not compare. Star: the paper's mean, beside its default; dashed: the mean limit, at which "
    "nothing would be lost (with skew in it). quality is bit-identical to waiting in the same order; throughput is the "
    "paper's default; predicted reads pending rows at predicted values; -random: in barrier's own order of views "
    "instead of the plan's. hidden-wait is of waits for a transfer or a slower rank, as the paper's 82 %; hidden also "
    "counts Odin's own work as lost. hidden-transfer ÷ hideable can exceed 100 %, since hideable leaves out structural "
    "windows."
)
needs: tuple[Need, ...] = (Study(role="matrix"),)


def remarks(cells: Cells) -> list[str]:
    """What agrees with Fig. 1 by construction, and what the noise of these numbers is."""
    matrix = cells.pairs("matrix")
    links = fitted(str(pair.setting("link", "name")) for pair in matrix)
    virtual = any(Label.VIRTUAL.value in pair.label for pair in matrix)
    return [*([by_construction(links)] if links else []), *([DETERMINISTIC] if virtual else [])]


def rows(cells: Cells) -> pd.DataFrame:
    """What `paper_figs.matrix`, `.matrix_quality` and `.borrowed` name; noise_floor: the largest spread of an arm over
    its own repeats, of timed cells."""
    found, matrix = Rows(name), cells.pairs("matrix")
    add_speedups(found, cells)
    add_jitter(found, matrix)
    add_limits(found, matrix)
    add_hidden(found, matrix)
    add_quality(found, matrix)
    add_audits(found, matrix)
    add_bits(found, cells)
    _noise(found, cells.every_pair())
    add_seeds(found, cells)
    add_city(found, cells)
    add_plans(found, cells)
    add_memory(found, cells)
    add_admission(found, cells)
    add_processes(found, cells)
    return found.frame()


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """A line per arm: its cells and their mean."""
    means = rows[rows["quantity"] == "mean_speedup"]
    if means.empty:
        return None
    every = int(rows.loc[(rows["quantity"] == "matrix_cells") & (rows["pipeline"] == ""), "value"].iloc[0])
    with canvas(0.5 * len(means) + 1.0, width=0.85 * WIDTH) as (figure, (axes,)):
        shown = list(means["value"])
        for y, row in enumerate(means.to_dict("records")):
            style, cells_of = arm_style(row["arm"]), ratios(cells.pairs("matrix"), row["arm"])
            axes.plot(cells_of, [y + 0.16] * len(cells_of), "o", ms=3.5, mfc="none", mec=style["color"])
            axes.plot(row["value"], y - 0.16, ls="none", ms=7, mec="white", **style)
            axes.annotate(
                f"{row['value']:.3f}× ({row['n']} of {every})",
                (row["value"], y - 0.16),
                (8, 0),
                textcoords="offset points",
                va="center",
                bbox={"fc": "white", "ec": "none", "pad": 0.6},
            )
            if row["paper"] == row["paper"]:
                axes.plot(row["paper"], y - 0.16, **PAPER_MARK, label="paper")
            shown += [*cells_of, row["paper"]] if row["paper"] == row["paper"] else cells_of
        limit = rows.loc[rows["quantity"] == "mean_limit", "value"]
        if len(limit):
            axes.axvline(limit.iloc[0], color="0.3", lw=0.9, ls="--", label="limit")
            shown.append(limit.iloc[0])
        ratio_axis(axes.xaxis, axes, shown)
        axes.set_yticks(range(len(means)), list(means["arm"]))
        axes.set_ylim(len(means) - 0.5, -0.5)
        axes.set_xlabel(f"{SPEEDUP} ({evidence(means)})")
        marks: dict[str, Any] = {"ls": "none", "marker": "o", "color": "0.4"}
        kinds = {"a cell": Line2D([], [], ms=3.5, mfc="none", **marks), "mean": Line2D([], [], ms=6, **marks)}
        legend_above(axes, 5, extra=kinds)
        return figure


def _noise(found: Rows, pairs: Sequence[Pair]) -> None:
    """A virtual cell has none: its repeats are copies."""
    timed = [pair for pair in pairs if pair.label != Label.VIRTUAL.value]
    floors = [(value, pair) for pair in timed if (value := pair.noise) is not None]
    if floors:
        value, pair = max(floors, key=lambda one: one[0])
        found.add("noise_floor", value, scene=pair.scene, pipeline=pair.pipeline, n=len(floors), unit="share",
                  **source([pair]))  # fmt: skip
