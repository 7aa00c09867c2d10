"""Fig. 14: sensitivity to the number of regions K and to the gate's τ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from odin.arms import arm as arm_named
from paper_figs.cells import Cells, Pair, over_seeds, place, speedups
from paper_figs.drawing import (
    SPEEDUP,
    arm_style,
    canvas,
    failed_legend,
    failed_mark,
    in_style,
    legend_outside,
    ratio_axis,
    without_number,
)
from paper_figs.exhibit import Need, Study
from paper_figs.paper import stated
from paper_figs.tidy import Rows, evidence
from paper_figs.wording import NO_EFFECT, effect_of, listed, percent

name = "fig14"
title = "Fig. 14: Sensitivity to the number of regions K and to τ"
note = (
    "Speedup over barrier. Left: over K. Right: over τ of throughput-first, K = 4, on other numbers of ranks and views "
    "(panel titles). A line breaks where an arm failed a gate, a cross in its colour at 1. Dotted: the paper's default."
    " quality and predicted have no τ. K is lowered where a region would hold fewer views than a step; K = 1 has "
    "nothing to rotate over, so its order is barrier's own."
)
needs: tuple[Need, ...] = (Study(role="regions"), Study(role="tau"))
ARMS = ("throughput", "quality", "predicted")
GATED = "throughput"
APART = 1.1  # between crosses of one K


def rows(cells: Cells) -> pd.DataFrame:
    """speedup by K (quantity speedup_by_regions, the scene names K) and by τ (speedup_by_tau, the arm names τ).

    late_by_tau, waited_by_tau: rows of the table that are read late and waited for (of opened windows);
    waiting_by_tau: waits ÷ step
    """
    found = Rows(name)
    for group in over_seeds(cells.pairs("regions")):
        own = place(group, scene=f"{group[0].scene}, K = {_regions(group)}")
        for arm in ARMS:
            found.add_ratios("speedup_by_regions", speedups(group, arm), arm=arm, unit="ratio", **own)
    for group in over_seeds(cells.pairs("tau")):
        own = place(group)
        for arm in _gated(group):
            found.add_ratios("speedup_by_tau", speedups(group, arm), arm=arm, unit="ratio", **own)
            runs = [run for pair in group if (run := pair.run(arm)) is not None]
            late = [run.windows.delayed for run in runs if run.windows.delayed is not None]
            waited = [run.windows.waited for run in runs if run.windows.waited is not None]
            waiting = [(run.breakdown.transfer + run.breakdown.skew) / run.breakdown.step for run in runs]
            for what, values in (("late", late), ("waited", waited), ("waiting", waiting)):
                found.add_mean(f"{what}_by_tau", values, arm=arm, unit="share", **own)
    return found.frame()


def remarks(cells: Cells) -> list[str]:
    """The findings, for the caption."""
    failed = without_number(over_seeds(cells.pairs("regions")), ARMS)
    return list(findings(rows(cells), [(_regions(group), arm) for group, arm in failed]))


def findings(frame: pd.DataFrame, failed: Sequence[tuple[int, str]] = ()) -> Iterator[str]:
    """How much K and τ change. failed: K and arm without a number."""
    for arm in ARMS:
        yield from _over_regions(frame, arm)
    by_count = {k: [arm for count, arm in failed if count == k] for k, _ in failed}
    if by_count:
        each = (f"{listed(arms)} at K = {k}" for k, arms in by_count.items())
        yield f"No number, for a failed gate: {'; '.join(each)}."
    yield from _over_tau(frame)


def _over_regions(frame: pd.DataFrame, arm: str) -> Iterator[str]:
    own = frame[(frame["quantity"] == "speedup_by_regions") & (frame["arm"] == arm)]
    means = own.groupby(_counts(own))["value"].mean()
    if len(means) < 2:
        return
    least, most = int(means.idxmin()), int(means.idxmax())
    default = stated("Setup", "regions")
    beside = ""
    if default in means.index:
        beside = f"; the paper's default K = {default:g}, {percent(means[default] / means[most])} from the best"
    yield (
        f"{arm} over K: {means[least]:.3f}× (K = {least}) to {means[most]:.3f}× (K = {most}), "
        f"{effect_of(means[most] / means[least])}{beside}."
    )


def _over_tau(frame: pd.DataFrame) -> Iterator[str]:
    table = frame[frame["quantity"].str.endswith("_by_tau")]
    means = table.pivot_table(index=table["arm"].map(_tau), columns="quantity", values="value")
    if len(means) < 2 or "speedup_by_tau" not in means:
        return
    ratios, (low, high) = means["speedup_by_tau"].dropna(), (means.index.min(), means.index.max())
    spread = ratios.max() / ratios.min()
    said = (
        f"{GATED} over τ ({low:g} to {high:g}): {ratios.min():.3f}× to {ratios.max():.3f}×, {100 * (spread - 1):.2f} %"
    )
    if spread - 1 <= NO_EFFECT:
        said += ", no effect"
    if {"late_by_tau", "waiting_by_tau"} <= set(means):
        late, waiting = means["late_by_tau"], means["waiting_by_tau"]
        said += (
            f", though rows that are read late go from {100 * late[low]:.1f} to {100 * late[high]:.1f} %: waits are "
            f"{100 * waiting.max():.1f} % of a step at most, so τ has no more than that to gain"
        )
    yield f"{said}. The paper: the return of K and τ is not monotonic."


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """Two panels with one ratio axis; what differs between them is in their titles."""
    by_regions, by_tau = (rows[rows["quantity"] == f"speedup_by_{what}"] for what in ("regions", "tau"))
    groups, gated = over_seeds(cells.pairs("regions")), over_seeds(cells.pairs("tau"))
    lost = without_number(groups, ARMS)
    with canvas(2.6, 2, sharey=True) as (figure, (left, right)):
        asked = sorted({_regions(group) for group in groups})
        for arm in ARMS:
            own = by_regions[by_regions["arm"] == arm]
            line = own.groupby(_counts(own))["value"].mean().reindex(asked)  # NaN breaks the line
            left.plot(asked, line, "-", ms=5, label=arm, **arm_style(arm))
        for group, arm in lost:
            apart = APART ** (ARMS.index(arm) - (len(ARMS) - 1) / 2)
            failed_mark(left, _regions(group) * apart, 1.0, arm)
        taus = sorted({_tau(arm) for group in gated for arm in _gated(group)})
        line = by_tau.groupby(by_tau["arm"].map(_tau))["value"].mean().reindex(taus)
        right.plot(taus, line, "-", ms=5, **arm_style(GATED))
        failed = [(arm, _tau(arm)) for group in gated for _, arm in without_number([group], _gated(group))]
        for _, tau in failed:
            failed_mark(right, tau, 1.0, GATED)
        _axis(left, asked, stated("Setup", "regions"), "regions K", groups)
        _axis(right, taus, stated("Setup", "tau"), "τ", gated)
        ratio_axis(left.yaxis, left, [*by_regions["value"], *by_tau["value"]])
        right.axhline(1.0, color="0.3", lw=0.8)
        left.set_ylabel(f"{SPEEDUP} ({evidence(rows)})")
        legend_outside(figure, [left], extra=failed_legend() if lost or failed else None)
        return figure


def _axis(
    axes: Axes, ticks: Sequence[float], default: float | None, text: str, groups: Sequence[tuple[Pair, ...]]
) -> None:
    """A logarithmic axis with these ticks and a line at the paper's default; the title says what ran."""
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(list(ticks)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    if default is not None:
        axes.axvline(default, color="0.5", lw=0.8, ls=":", zorder=0)
    ran = dict.fromkeys(f"{pair.ranks} ranks, B = {pair.batch}" for group in groups for pair in group)
    axes.set_xlabel(text)
    axes.set_title("; ".join(ran), loc="left", fontsize=8)


def _counts(frame: pd.DataFrame) -> pd.Series:
    """K of rows by regions."""
    return frame["scene"].str.extract(r"K = (\d+)$")[0].astype(int)


def _regions(group: Sequence[Pair]) -> int:
    return int(group[0].setting("study", "regions"))


def _gated(group: Sequence[Pair]) -> list[str]:
    """The arms of a study of τ that have a gate."""
    return [arm for arm in dict.fromkeys(group[0].sequence) if arm.partition(":")[0] == GATED]


def _tau(arm: str) -> float:
    return arm_named(arm).tau
