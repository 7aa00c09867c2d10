"""Review 2: quality of every scene over seeds, beside perturbed controls, with the worst scene named."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from harness.statistics.intervals import student_interval
from harness.statistics.ratios import equivalence, ratios_of
from odin.arms import arm as arm_named
from paper_figs.cells import Cells, Pair, source
from paper_figs.drawing import arm_style, in_style, legend_outside, sheet, short
from paper_figs.exhibit import Need, Study
from paper_figs.quality import decibels, psnr
from paper_figs.tidy import Rows, evidence

name = "review2"
title = "Review 2: Quality per scene over seeds"
note = (
    "Test PSNR minus barrier's on the same seed, with and without densification; small dots are seeds, marks their "
    "mean with Student's 95 % interval. perturbed: barrier again with initial positions scaled by 1 + 1e-6, the noise"
    " floor of every difference, because densification is chaotic. An arm's difference inside that spread is no "
    "finding."
)
needs: tuple[Need, ...] = (Study(role="quality"), Study(role="control"))
ARMS = ("throughput", "predicted", "predicted-random", "barrier-planned")
CONTROL, BASELINE, PLANNED = "perturbed", "barrier", "barrier-planned"
MARGIN = 0.005


def rows(cells: Cells) -> pd.DataFrame:
    """psnr_delta and worst_psnr_delta (dB) against barrier, psnr_delta_same_order against waiting in the arm's own
    order (its range).

    largest_psnr_delta_fixed: of the latter without densification, the worst scene. Over all pairs with densification:
    quality_delta (PSNR ratio − 1) and equivalence_bound, the end of its 90 % interval that is farther from 0.
    """
    found, pooled, worst, fixed = Rows(name), dict[str, list[float]](), dict[str, float](), dict[str, list[float]]()
    pairs = cells.pairs("quality", "control")
    for (scene, densify), group in _places(pairs).items():
        where = f"{scene}, densification {'on' if densify else 'off'}"
        own = source(group, pipeline=group[0].pipeline)
        for arm, values in _deltas(group).items():
            bounds = student_interval(values)
            mean = sum(values) / len(values)
            own |= {"low": bounds.low.value, "high": bounds.high.value}
            found.add("psnr_delta", mean, scene=where, arm=arm, n=len(values), unit="dB", **own)
            worst[arm] = min(worst.get(arm, mean), mean)
        for arm in ARMS:
            same = [d for pair in group if (d := _same_order(pair, arm)) is not None]
            if same:
                mean = sum(same) / len(same)
                own |= {"low": min(same), "high": max(same)}
                found.add("psnr_delta_same_order", mean, scene=where, arm=arm, n=len(same), unit="dB", **own)
                fixed.setdefault(arm, []).extend([] if densify else [abs(mean)])
            ratios = [r for pair in group if (r := _ratio(pair, arm)) is not None]
            pooled.setdefault(arm, []).extend(ratios if densify else [])
    own = source(pairs)
    for arm, value in worst.items():
        found.add("worst_psnr_delta", value, arm=arm, unit="dB", **own)
    for arm, ratios in pooled.items():
        if ratios:
            pool = ratios_of(ratios)
            low, high = (None if b.value is None else b.value - 1 for b in (pool.student.low, pool.student.high))
            found.add("quality_delta", pool.geometric - 1, low=low, high=high, arm=arm, n=pool.n, unit="share", **own)
            half = equivalence(ratios, MARGIN, least=2).half_width.value
            bound = None if half is None else abs(pool.geometric - 1) + half
            found.add("equivalence_bound", bound, arm=arm, n=pool.n, unit="share", **own)
    for arm, means in fixed.items():
        found.add("largest_psnr_delta_fixed", max(means, default=None), arm=arm, n=max(len(means), 1), unit="dB", **own)
    return found.frame()


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """Panels with and without densification."""
    places = _places(cells.pairs("quality", "control"))
    kinds = sorted({densify for _, densify in places}, reverse=True)
    scenes = list(dict.fromkeys(scene for scene, _ in places))
    if not scenes:
        return None
    with sheet(0.6 * len(scenes) + 1.1, 1, len(kinds), sharey=True) as (figure, grid):
        for axes, densify in zip(grid[0], kinds, strict=True):
            axes.axvline(0, color="0.3", lw=0.8)
            for y, scene in enumerate(scenes):
                found = _deltas(places.get((scene, densify), ()))
                for place, (arm, values) in enumerate(found.items()):
                    at, style = y + 0.18 * (place - (len(found) - 1) / 2), _style(arm)
                    bounds = student_interval(values)
                    if bounds.low.value is not None and bounds.high.value is not None:
                        axes.plot([bounds.low.value, bounds.high.value], [at, at], "-", color=style["color"], lw=1.1)
                    axes.plot(values, [at] * len(values), ".", ms=3, color=style["color"])
                    axes.plot(
                        [sum(values) / len(values)], [at], ls="none", ms=5, mec="white", mew=0.4, label=arm, **style
                    )
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.set_title(f"densification {'on' if densify else 'off'}", loc="left", fontsize=8)
            axes.set_xlabel(f"test PSNR − barrier's, dB ({evidence(rows)})")
            axes.set_yticks(range(len(scenes)), short(scenes))
            axes.set_ylim(len(scenes) - 0.5, -0.5)
        legend_outside(figure, grid[0])
        return figure


def _style(arm: str) -> dict[str, object]:
    return {"color": "0.5", "marker": "X"} if arm == CONTROL else arm_style(arm)


def _perturb(pair: Pair) -> float:
    return float(pair.setting("pipeline", "perturb"))


def _places(pairs: Sequence[Pair]) -> dict[tuple[str, bool], tuple[Pair, ...]]:
    found: dict[tuple[str, bool], tuple[Pair, ...]] = {}
    for pair in pairs:
        place = (pair.scene, bool(pair.setting("pipeline", "densify")))
        found[place] = (*found.get(place, ()), pair)
    return found


def _deltas(group: Sequence[Pair]) -> dict[str, list[float]]:
    """Arm → PSNR differences over seeds; the control's are of perturbed barrier runs from the plain one of the seed."""
    found: dict[str, list[float]] = {}
    plain = {pair.seed: pair for pair in group if _perturb(pair) == 0.0}
    for pair in group:
        if _perturb(pair) == 0.0:
            for arm in ARMS:
                if (value := decibels(pair, arm)) is not None:
                    found.setdefault(arm, []).append(value)
        elif (value := _control(pair, plain.get(pair.seed))) is not None:
            found.setdefault(CONTROL, []).append(value)
    return found


def _control(pair: Pair, plain: Pair | None) -> float | None:
    ours, theirs = psnr(pair, BASELINE), psnr(plain, BASELINE) if plain else None
    return None if ours is None or theirs is None else ours - theirs


def _same_order(pair: Pair, arm: str) -> float | None:
    """The PSNR difference from waiting for everything with the same views in the same order, dB."""
    return None if arm == PLANNED or _perturb(pair) != 0.0 else decibels(pair, arm, arm_named(arm).reference)


def _ratio(pair: Pair, arm: str) -> float | None:
    if _perturb(pair) != 0.0:
        return None
    ours, theirs = psnr(pair, arm), psnr(pair, BASELINE)
    return None if not ours or not theirs else ours / theirs
