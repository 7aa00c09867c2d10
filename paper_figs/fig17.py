"""Fig. 17: quality-first: which windows are rejected, what a rejection costs and what it leaves of the speedup."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.measure.windows import read_windows
from harness.store.schema import Measurement
from harness.store.store import WINDOWS
from odin.plan import Blocking
from odin.publication import WindowState
from paper_figs.cells import Cells, Pair, over_seeds, place, source, speedups
from paper_figs.drawing import (
    PAPER_MARK,
    SPEEDUP,
    dots,
    failed_legend,
    in_style,
    legend_outside,
    ratio_axis,
    sheet,
    short,
    without_number,
)
from paper_figs.exhibit import Need, Study
from paper_figs.paper import stated, stated_table
from paper_figs.tidy import Rows, evidence
from paper_figs.wording import effect_of, listed, percent

name = "fig17"
title = "Fig. 17: Fallback of the quality-first path"
note = (
    "paper-quality waits for all of a step unless no row is in conflict, which is how we read §4.3; quality:groups=off "
    "waits for conflicting rows, quality for their column groups. Rejected is what a record calls so: 95 % or more of "
    "what a step sent was waited for (older records count rows, newer ones bytes before the next step's first "
    "projection); shares are of planned windows, without those that a structural event closes. A rejected window of "
    "quality is not one without overlap: early rows have travelled during the backward of the step before, and colours "
    "are waited for after projection. Wait: of rejected windows where each window's was recorded (filled), else all "
    "waits of the run ÷ its rejected windows (open), an upper bound, because windows that opened wait too. Stars: the "
    "paper's, on other scenes; grey: its range of speedups. Switches: quality's step without one ÷ with it, in the "
    "same order of views."
)
needs: tuple[Need, ...] = (Study(role="fallback"),)
ARMS = ("paper-quality", "quality:groups=off", "quality")
ROWWISE, EXACT = "quality:groups=off", "quality"
SWITCHES = tuple(f"{EXACT}:{name}=off" for name in ("groups", "unit_order", "early"))
_IN_PLAN = {flag.name.lower() for flag in Blocking if flag.name}  # reasons of windows that were never to open


def rows(cells: Cells) -> pd.DataFrame:
    """rejected (of all windows), rejected_planned, waited_rows (of opened ones), wait_per_step, speedup, per scene.

    wait_per_rejected: ms that a rank waits for a rejected planned window; wait_per_rejected_bound: at most
    switch_effect:     step of quality without a switch ÷ with it; the arm names the switch
    """
    found = Rows(name)
    for group in over_seeds(cells.pairs("fallback")):
        own = place(group)
        for arm in ARMS:
            _account(found, group, arm, own)
            found.add_ratios("speedup", speedups(group, arm), arm=arm, unit="ratio", **own)
        for arm in SWITCHES:
            ratios = [r for pair in group if (r := _without(pair, arm)) is not None]
            found.add_ratios("switch_effect", ratios, arm=arm, unit="ratio", **own)
    strict = found.frame()
    every = strict[(strict["quantity"] == "speedup") & (strict["arm"] == ROWWISE)]
    pairs = cells.pairs("fallback")
    for quantity, value, high in (
        ("least_speedup", every["value"].min(), False),
        ("most_speedup", every["value"].max(), True),
    ):
        if len(every):
            paper = stated("Fig. 17", "speedup", scene="stress subset", high=high)
            found.add(quantity, value, arm=ROWWISE, n=len(every), paper=paper, unit="ratio", **source(pairs))
    return found.frame()


def _account(found: Rows, group: Sequence[Pair], arm: str, own: dict[str, Any]) -> None:
    """What became of an arm's windows."""
    runs = [(pair, run) for pair in group if (run := pair.run(arm)) is not None and run.windows.total]
    shares = [sum(run.windows.rejected.values()) / run.windows.total for _, run in runs]
    found.add_mean("rejected", shares, arm=arm, unit="share", **own)
    planned = [(_rejected(run), run.windows.total - _closed(run)) for _, run in runs]
    shares = [rejected / windows for rejected, windows in planned if windows]
    found.add_mean("rejected_planned", shares, arm=arm, unit="share", **own)
    waited = [run.windows.waited for _, run in runs if run.windows.waited is not None]
    found.add_mean("waited_rows", waited, arm=arm, unit="share", **own)
    found.add_mean("wait_per_step", [1e3 * _wait(run) for _, run in runs], arm=arm, unit="ms", **own)
    exact = [1e3 * wait for pair, _ in runs if (wait := _recorded(pair, arm)) is not None]
    found.add_mean("wait_per_rejected", exact, arm=arm, unit="ms", **own)
    if not exact:
        bounds = [1e3 * _wait(run) * run.steps / _rejected(run) for _, run in runs if _rejected(run)]
        found.add_mean("wait_per_rejected_bound", bounds, arm=arm, unit="ms", **own)


def _wait(run: Measurement) -> float:
    """Mean over ranks, s per step."""
    return sum(run.breakdown.wait_by_rank) / run.ranks


def _closed(run: Measurement) -> int:
    """Windows that the plan keeps closed."""
    return sum(count for reason, count in run.windows.rejected.items() if _in_plan(reason))


def _rejected(run: Measurement) -> int:
    """Planned windows that did not open."""
    return sum(run.windows.rejected.values()) - _closed(run)


def _in_plan(reason: str) -> bool:
    return set(reason.split("|")) <= _IN_PLAN


def _recorded(pair: Pair, arm: str) -> float | None:
    """Mean wait of a rejected planned window in s; None where there is none or its seconds were not recorded."""
    found = pair.result(arm)
    path = None if found is None else pair.root / "cells" / found.cell_id / WINDOWS
    if path is None or not path.exists():
        return None
    frame = read_windows(path)
    own = frame[(frame["state"] == WindowState.REJECTED.value) & ~frame["reason"].map(_in_plan)]
    mean = float((own["transfer_s"] + own["skew_s"]).mean())
    return None if math.isnan(mean) else mean


def _without(pair: Pair, arm: str) -> float | None:
    """Step of an arm ÷ that of `quality`; both end in the same bits, so no difference of quality touches it."""
    off, on = pair.run(arm), pair.run(EXACT)
    if off is None or on is None or off.plan_digest != on.plan_digest:
        return None
    return off.breakdown.step / on.breakdown.step


def remarks(cells: Cells) -> list[str]:
    """The findings, for the caption."""
    return list(findings(rows(cells)))


def findings(frame: pd.DataFrame) -> Iterator[str]:
    """Rejections beside the paper's, speedups, and what each switch is worth."""
    each = []
    for arm in ARMS:
        own = {
            q: frame.loc[(frame["quantity"] == q) & (frame["arm"] == arm), "value"]
            for q in ("rejected_planned", "speedup")
        }
        if len(own["rejected_planned"]):
            each.append(f"{arm} {_range(100 * own['rejected_planned'], '.1f')} %{_at(own['speedup'])}")
    paper = [f"{100 * row['value']:.1f} % ({row['scene']})" for row in _stated("rejected")]
    if each:
        yield f"Planned windows rejected, over scenes: {'; '.join(each)}. The paper: {listed(paper)}."
    switches = frame[frame["quantity"] == "switch_effect"]
    worth = [
        f"{arm.partition(':')[2].partition('=')[0]} {effect_of(own['value'].mean())}{_ends(own['value'])}"
        for arm, own in switches.groupby("arm", sort=False)
    ]
    if worth:
        said = f"What a switch of {EXACT} is worth, step without ÷ with it, mean and range over scenes"
        yield f"{said}: {'; '.join(worth)}."


def _ends(ratios: pd.Series) -> str:
    low, high = percent(ratios.min()), percent(ratios.max())
    return "" if low == high else f", {low} to {high}"


def _at(ratios: pd.Series) -> str:
    return f" at {_range(ratios, '.3f')}×" if len(ratios) else ""


def _range(values: pd.Series, form: str) -> str:
    low, high = f"{values.min():{form}}", f"{values.max():{form}}"
    return low if low == high else f"{low} to {high}"


def _stated(quantity: str) -> list[dict]:
    """The paper's numbers of a quantity, each of one scene."""
    table = stated_table()
    own = table[(table["exhibit"] == "Fig. 17") & (table["quantity"] == quantity) & table["high"].isna()]
    return own.to_dict("records")


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """Rejections and what they cost above, ratios below."""
    rejected, ratios, switches = (rows[rows["quantity"] == q] for q in ("rejected_planned", "speedup", "switch_effect"))
    scenes = list(dict.fromkeys(rejected["scene"]))
    if not scenes:
        return None
    groups = over_seeds(cells.pairs("fallback"))
    failed = [(g[0].scene, arm) for g, arm in without_number(groups, ARMS) if g[0].scene in scenes]
    places = [*scenes, *dict.fromkeys(row["scene"] for q in ("rejected", "speedup") for row in _stated(q))]
    kind = evidence(rows)
    with sheet(0.46 * len(places) + 1.7, 2, 2, sharey=True) as (figure, grid):
        (first, second), (third, fourth) = grid
        dots(first, rejected, "scene", places, scale=100.0, arms=ARMS)
        _waits(second, rows, places)
        dots(third, ratios, "scene", places, arms=ARMS, failed=failed)
        gains = {end: switches[end] - 1.0 for end in ("value", "low", "high")}
        dots(fourth, switches.assign(**gains), "scene", places, scale=100.0, arms=SWITCHES)
        _stars(first, "rejected", places, 100.0)
        _stars(third, "speedup", places, 1.0)
        low, high = (stated("Fig. 17", "speedup", scene="stress subset", high=end) for end in (False, True))
        shown = list(ratios["value"])
        if low is not None and high is not None:
            third.axvspan(low, high, color="0.92", lw=0, zorder=0)
            shown += [low, high]
        ratio_axis(third.xaxis, third, shown)
        fourth.axvline(0.0, color="0.3", lw=0.8, zorder=1)
        first.set_xlim(-4, 104)
        waits = rows.loc[rows["quantity"].str.startswith("wait_per_rejected"), "value"]
        second.set_xlim(0, 1.06 * max(waits, default=1.0))
        first.set_xlabel(f"planned windows rejected, % ({kind})")
        second.set_xlabel(f"wait of a rejected window, ms ({kind})")
        third.set_xlabel(f"{SPEEDUP} ({kind})")
        fourth.set_xlabel(f"what a switch is worth, % of a step ({kind})")
        first.set_yticks(range(len(places)), [*short(scenes), *(f"{one} (paper)" for one in places[len(scenes) :])])
        legend_outside(figure, [first, fourth], extra=failed_legend() if failed else None)
        return figure


def _waits(axes: Axes, rows: pd.DataFrame, places: Sequence[str]) -> None:
    """Per rejected window; open where it is a bound."""
    dots(axes, rows[rows["quantity"] == "wait_per_rejected"], "scene", places, arms=ARMS)
    drawn = len(axes.lines)
    dots(axes, rows[rows["quantity"] == "wait_per_rejected_bound"], "scene", places, arms=ARMS)
    for line in axes.lines[drawn:]:
        if line.get_marker() not in ("", "None"):
            line.set(markerfacecolor="none", markeredgecolor=line.get_color(), markeredgewidth=1.0)


def _stars(axes: Axes, quantity: str, places: Sequence[str], scale: float) -> None:
    for row in _stated(quantity):
        axes.plot(scale * row["value"], places.index(row["scene"]), **PAPER_MARK, label="paper", zorder=4)
