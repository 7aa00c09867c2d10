"""Fig. 19: where a step goes, and how much of the baseline's lost time each arm hides."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.measure.breakdown import PARTS
from harness.plan.drawing import colour
from harness.report.figure import COLOURS
from harness.report.summary import BASELINE, Numbers
from harness.store.record import Reading
from paper_figs.cells import Cells, Pair, place
from paper_figs.drawing import PAPER_MARK, canvas, in_style, legend_above
from paper_figs.exhibit import Need, Study
from paper_figs.matrix import hidden_wait
from paper_figs.paper import stated
from paper_figs.tidy import Rows, evidence

name = "fig19"
title = "Fig. 19: Where a step goes, and what is hidden"
note = (
    "Left: mean over ranks and steps of one representative 3DGS run. Right: hidden is 1 − lost time ÷ barrier's over "
    "all steps, Odin's own work counted as lost; hidden-wait the same of waits for a transfer or a slower rank, as the "
    "paper's 82 % of critical-path wait (star); hidden-transfer and hidden-skew of either alone; hideable is what the "
    "next step's useful time could cover, structural windows left out, so that more can be hidden. predicted updates "
    "its rows in one pass that also corrects what was predicted; all of it counts as odin, though it takes the place "
    "of barrier's update, which counts as useful."
)
needs: tuple[Need, ...] = (Study(role="matrix"),)
ARMS = ("barrier", "throughput", "quality", "predicted")
SHARES = {"hidden": ("o", 0), "hidden_wait": ("D", 2), "hidden_transfer": ("^", 3), "hidden_skew": ("s", 4)}


def representative(cells: Cells) -> Pair | None:
    """The first 3DGS pair of the matrix with all four arms sound, else the first pair of it."""
    pairs = [pair for pair in cells.pairs("matrix") if pair.pipeline == "3DGS"]
    sound = [pair for pair in pairs if all(pair.numbers(arm) is not None for arm in ARMS)]
    return next(iter(sound or pairs), None)


def used(cells: Cells) -> list[Pair]:
    """The pair that is shown."""
    pair = representative(cells)
    return [] if pair is None else [pair]


def rows(cells: Cells) -> pd.DataFrame:
    """part_… of a step (ms), hidden, hidden_wait, hidden_transfer, hidden_skew and hideable, per arm."""
    found, pair = Rows(name), representative(cells)
    if pair is None:
        return found.frame()
    own, base = place([pair]), pair.numbers(BASELINE)
    for arm in ARMS:
        numbers = pair.numbers(arm)
        if numbers is None or base is None:
            continue
        for part in PARTS:
            found.add(f"part_{part}", 1e3 * getattr(numbers.parts, part), arm=arm, unit="ms", **own)
        if arm == BASELINE:
            found.add("hideable", numbers.parts.hideable.value, arm=arm, unit="share", **own)
            continue
        for share in SHARES:
            paper = stated("Fig. 19", "hidden") if (arm, share) == ("throughput", "hidden_wait") else None
            found.add(share, _hidden(share, numbers, base), arm=arm, unit="share", paper=paper, **own)
    return found.frame()


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """Parts left, shares right."""
    arms = list(dict.fromkeys(rows["arm"]))
    if not arms:
        return None
    with canvas(0.36 * len(arms) + 1.0, 2, sharey=True) as (figure, (left, right)):
        _parts(left, rows, arms)
        _shares(right, rows, arms)
        hideable = rows.loc[rows["quantity"] == "hideable", "value"]
        if len(hideable):
            right.axvline(100 * hideable.iloc[0], color="0.3", lw=0.8, ls="--", label="hideable")
        right.set_xlim(min(-5.0, 105 * rows.loc[rows["unit"] == "share", "value"].min()), 108)
        left.set_yticks(range(len(arms)), arms)
        left.set_ylim(len(arms) - 0.5, -0.5)
        kind = evidence(rows)
        left.set_xlabel(f"ms per step ({kind})")
        right.set_xlabel(f"share hidden, % ({kind})")
        legend_above(left, 3)
        legend_above(right, 3)
        return figure


def _shares(axes: Axes, rows: pd.DataFrame, arms: list[str]) -> None:
    """A mark per share, below each other so that equal ones can be told apart; the paper's on the line of its own."""
    for line, (share, (marker, shade)) in enumerate(SHARES.items()):
        own, offset = rows[rows["quantity"] == share], 0.17 * (line - (len(SHARES) - 1) / 2)
        y = [arms.index(arm) + offset for arm in own["arm"]]
        axes.plot(100 * own["value"], y, marker, ms=5, color=colour(shade), mec="white", mew=0.4,
                  label=share.replace("_", "-"))  # fmt: skip
        for row in own[own["paper"].notna()].to_dict("records"):
            axes.plot(100 * row["paper"], arms.index(row["arm"]) + offset, **PAPER_MARK, label="paper")


def _hidden(share: str, numbers: Numbers, base: Numbers) -> float | None:
    if share == "hidden_wait":
        return hidden_wait(numbers.parts, base.parts)
    reading: Reading = getattr(numbers.against, share)
    return reading.value


def _parts(axes: Axes, rows: pd.DataFrame, arms: list[str]) -> None:
    for y, arm in enumerate(arms):
        before = 0.0
        own = rows[rows["arm"] == arm].set_index("quantity")["value"]
        for part in PARTS:
            # A remainder of rounding may be below zero by nanoseconds; a bar cannot.
            width = max(0.0, float(own[f"part_{part}"]))
            axes.barh(y, width, 0.62, before, color=colour(COLOURS[part]), label=part if y == 0 else None)
            before += width
        axes.annotate(f"{before:.3g}", (before, y), (3, 0), textcoords="offset points", va="center", fontsize=7)
    axes.margins(x=0.12)
