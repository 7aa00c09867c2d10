"""Fig. 18: the ablation: throughput and quality without each component, and the HOGWILD control."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from paper_figs.cells import Cells, Pair, over_seeds, place, speedups
from paper_figs.drawing import (
    SPEEDUP,
    canvas,
    failed_legend,
    failed_mark,
    in_style,
    legend_above,
    ratio_axis,
    without_number,
)
from paper_figs.exhibit import Need, Study
from paper_figs.quality import decibels as difference
from paper_figs.tidy import Rows, evidence
from paper_figs.wording import THRESHOLDS, decibels, effect_of, listed, percent, quality_effect_of

name = "fig18"
title = "Fig. 18: Ablation"
note = (
    "Left: speedup over barrier; bars begin at 1, log axis; behind an arm without a component what that component is "
    "worth, full ÷ without. Right: test PSNR minus barrier's. Dashed: full throughput-first. hogwild, also the paper's "
    "w/o LP: random order, waits only until its gradient slot is free, reads what was last published, validates "
    "nothing; it keeps the staging and has neither the locality graph nor SDS (Review 5). overlap-without-locality: "
    "random order, every window validated."
)
needs: tuple[Need, ...] = (Study(role="ablation"),)
BASELINE, FULL, PLANNED, HOGWILD = "barrier", "throughput", "barrier-planned", "hogwild"
WITHOUT = "without-"
CONTROLS = (HOGWILD, "overlap-without-locality")
BLANK = {"fc": "white", "ec": "none", "pad": 0.5}
COMPONENTS = ("SAS", "SDS", "DDS", "DAS")
# Arms that have to be another one, and why; said where the records show that they are.
SAME_AS = {"without-DDS": FULL, "without-SAS": PLANNED}
SAME = {
    "without-DDS": f"without-DDS is {FULL} BY CONSTRUCTION, not by measurement: DDS moves units only where ranks run "
    f"ahead of one another, that is where nothing is waited for inside a step, and {FULL} waits in every step, where "
    "each assignment of units to equal ranks takes equally long. So this ablation says nothing of DDS.",
    "without-SAS": f"without-SAS is {PLANNED} by construction: without a window every step waits for all of the one "
    "before, in the plan's order.",
}


def rows(cells: Cells) -> pd.DataFrame:
    """speedup and psnr_delta (− barrier's) per arm, waiting and own_work (shares of its step).

    effect, effect_psnr: full ÷ without and full − without, of the ablated ones and the controls
    """
    found = Rows(name)
    for group in over_seeds(cells.pairs("ablation")):
        own = place(group)
        for arm in dict.fromkeys(group[0].sequence):
            if arm == BASELINE:
                continue
            found.add_ratios("speedup", speedups(group, arm), arm=arm, unit="ratio", **own)
            if arm.startswith(WITHOUT) or arm in CONTROLS:
                found.add_ratios("effect", _effects(group, arm), arm=arm, unit="ratio", **own)
                gains = [d for pair in group if (d := difference(pair, FULL, arm)) is not None]
                found.add_mean("effect_psnr", gains, arm=arm, unit="dB", **own)
            changes = [d for pair in group if (d := difference(pair, arm)) is not None]
            found.add_mean("psnr_delta", changes, arm=arm, unit="dB", **own)
            parts = [run.breakdown for pair in group if (run := pair.run(arm)) is not None]
            waiting = [(one.transfer + one.skew) / one.step for one in parts]
            found.add_mean("waiting", waiting, arm=arm, unit="share", **own)
            found.add_mean("own_work", [one.odin / one.step for one in parts], arm=arm, unit="share", **own)
    return found.frame()


def _effects(group: tuple[Pair, ...], arm: str) -> list[float]:
    """Speedup of the full arm ÷ that without, of the pairs that have both."""
    both = [(pair.numbers(FULL), pair.numbers(arm)) for pair in group]
    return [full.speedup / without.speedup for full, without in both if full is not None and without is not None]


def remarks(cells: Cells) -> list[str]:
    """The findings, for the caption."""
    return list(findings(rows(cells)))


def findings(frame: pd.DataFrame) -> Iterator[str]:
    """What each component is worth, what is so by construction, and the fastest arm; means over scenes."""
    means = _means(frame)
    worth = means["effect"].dropna() if "effect" in means else pd.Series(dtype="float64")
    each = [
        f"{component} {effect_of(worth[arm])}, PSNR {quality_effect_of(means.loc[arm, 'effect_psnr'])}"
        for component in COMPONENTS
        if (arm := f"{WITHOUT}{component}") in worth
    ]
    if each:
        yield f"What a component is worth in speedup and PSNR ({THRESHOLDS}): {'; '.join(each)}."
    yield from (text for arm, text in SAME.items() if _same(means, arm))
    yield from _control(means)
    if FULL in means.index:
        waiting, own = means.loc[FULL, "waiting"], means.loc[FULL, "own_work"]
        yield (
            f"{FULL} waits {100 * waiting:.1f} % of its step and spends {100 * own:.1f} % on Odin's own work, which an "
            "arm without validation saves."
        )
    if each and set(frame["n"]) == {1}:
        yield "One run each: densification is chaotic, so PSNR effects of this size are no finding yet (Review 2)."


def _means(frame: pd.DataFrame) -> pd.DataFrame:
    """Arm × quantity, over scenes."""
    return frame.pivot_table(index="arm", columns="quantity", values="value", sort=False)


def _same(means: pd.DataFrame, arm: str) -> bool:
    """Whether the records of an arm show the numbers of the arm that it is said to be."""
    twin = SAME_AS[arm]
    columns = ["speedup", "psnr_delta"]
    return {arm, twin} <= set(means.index) and bool((means.loc[arm, columns] == means.loc[twin, columns]).all())


def _control(means: pd.DataFrame) -> Iterator[str]:
    """The fastest arm, what the paper says of the ablated ones and of its control, and what holds of that here."""
    ratios = means["speedup"].dropna() if "speedup" in means else pd.Series(dtype="float64")
    if FULL not in ratios or HOGWILD not in ratios:
        return
    fastest = str(ratios.idxmax())
    slower = [
        c for c in COMPONENTS if (a := f"{WITHOUT}{c}") in ratios and effect_of(ratios[FULL] / ratios[a])[0] == "+"
    ]
    yield (
        f"The paper: all components are needed, and its control w/o LP loses throughput and quality. Here only the "
        f"absence of {listed(slower) or 'none'} costs speed; {HOGWILD} is at {ratios[HOGWILD]:.3f}×, "
        f"{percent(ratios[HOGWILD] / ratios[FULL])} from {FULL}, and at {decibels(means.loc[HOGWILD, 'psnr_delta'])} "
        f"from {BASELINE}'s PSNR ({FULL}: {decibels(means.loc[FULL, 'psnr_delta'])}); the fastest is {fastest}."
    )


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """A bar per arm, a mark per scene where there are several."""
    ratios, changes = (rows[rows["quantity"] == q] for q in ("speedup", "psnr_delta"))
    if changes.empty:
        return None
    groups = over_seeds(cells.pairs("ablation"))
    arms = [arm for arm in dict.fromkeys(arm for group in groups for arm in group[0].sequence) if arm != BASELINE]
    failed = {arm for _, arm in without_number(groups, arms)}
    with canvas(0.29 * len(arms) + 0.9, 2, sharey=True, width_ratios=(1.35, 1)) as (figure, (left, right)):
        means = _means(rows)
        for y, arm in enumerate(arms):
            own, other = (frame.loc[frame["arm"] == arm, "value"] for frame in (ratios, changes))
            _bar(left, y, arm, own, 1.0, f"{own.mean():.3f}×{_worth(means, arm)}")
            _bar(right, y, arm, other, 0.0, decibels(float(other.mean())))
            if arm in failed:
                failed_mark(left, 1.0, y, arm, color="0.2")
        # Room for the text behind the longest bars.
        ratio_axis(left.xaxis, left, [*ratios["value"], 1.6 * max([1.0, *ratios["value"]])], most=5)
        shown = [0.0, *changes["value"]]
        room = max(shown) - min(shown) or 1.0
        right.set_xlim(min(shown) - 0.04 * room, max(shown) + 0.3 * room)
        right.xaxis.set_major_locator(MaxNLocator(5))
        for axes, frame, start in ((left, ratios, 1.0), (right, changes, 0.0)):
            full = frame.loc[frame["arm"] == FULL, "value"]
            axes.axvline(start, color="0.3", lw=0.8, zorder=2)
            if len(full):
                axes.axvline(full.mean(), color="black", lw=0.9, ls="--", zorder=0.5)
        left.set_yticks(range(len(arms)), arms)
        left.tick_params(axis="y", length=0)
        left.set_ylim(len(arms) - 0.5, -0.5)
        kind = evidence(rows)
        left.set_xlabel(f"{SPEEDUP} ({kind})")
        right.set_xlabel(f"test PSNR − barrier's, dB ({kind})")
        if failed:
            legend_above(left, extra=failed_legend())
        return figure


def _worth(means: pd.DataFrame, arm: str) -> str:
    """What the component that an arm lacks is worth, for its bar."""
    if not arm.startswith(WITHOUT) or "effect" not in means or arm not in means["effect"].dropna():
        return ""
    component = arm.removeprefix(WITHOUT)
    if arm in SAME and SAME_AS[arm] == FULL and _same(means, arm):
        return f"   {component} does nothing here, by construction"
    return f"   {component} {effect_of(means.loc[arm, 'effect'])}"


def _bar(axes: Axes, y: int, arm: str, values: pd.Series, start: float, text: str) -> None:
    """A bar from `start` to the mean, with a text on its right; a mark per scene where there are several."""
    if values.empty:
        return
    mean = float(values.mean())
    axes.barh(y, mean - start, 0.62, left=start, color="0.55" if arm != FULL else "0.3", zorder=1)
    if len(values) > 1:
        axes.plot(values, [y] * len(values), "o", ms=3.5, mfc="white", mec="black", mew=0.8, zorder=3)
    at = (max(mean, start), y)
    axes.annotate(text, at, (4, 0), textcoords="offset points", va="center", fontsize=7, bbox=BLANK, zorder=4)
