"""Review 2: quality of every scene over seeds, beside perturbed controls, with the worst scene named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from harness.statistics.intervals import student_interval
from harness.statistics.ratios import LEAST_TO_CLASSIFY, MARGINS, equivalence, ratios_of
from odin.arms import arm as arm_named
from paper_figs.cells import Cells, Pair, source
from paper_figs.drawing import arm_style, in_style, legend_outside, sheet, short
from paper_figs.exhibit import Need, Study
from paper_figs.quality import decibels, psnr
from paper_figs.tidy import Rows, evidence
from paper_figs.wording import decibels as signed
from paper_figs.wording import listed, points

name = "review2"
title = "Review 2: Quality per scene over seeds"
note = (
    "Test PSNR minus barrier's on the same seed, with and without densification; small dots are seeds, marks their "
    "mean with Student's 95 % interval. perturbed: barrier again with initial positions scaled by 1 + 1e-6, the noise"
    " floor of every difference, because densification is chaotic; grey: its spread. An arm's difference inside that "
    "spread is no finding."
)
brackets = (
    "Brackets: Student's 95 % interval over seeds (of quality delta: on the logarithms of the pooled ratios); of psnr "
    "delta same order the smallest and the largest seed."
)
needs: tuple[Need, ...] = (Study(role="quality"), Study(role="control"))
ARMS = ("throughput", "predicted", "predicted-random", "barrier-planned")
CONTROL, BASELINE, PLANNED = "perturbed", "barrier", "barrier-planned"
MARGIN = min(MARGINS)
LEAST_POOLED = 48  # pairs from which the pooled differences are classified (D§11)

Places = Mapping[tuple[str, bool], tuple[Pair, ...]]  # (scene, densification on) → pairs of all seeds


def rows(cells: Cells) -> pd.DataFrame:
    """psnr_delta (dB) against barrier, psnr_delta_same_order against waiting in the arm's own order (its range).

    worst_psnr_delta, …_fixed: psnr_delta of the scene with the lowest, with densification and without it
    perturbed_spread: from the lowest to the highest PSNR of barrier on a seed's perturbations, as differences, dB
    equivalence_half_width: of a scene's 90 % interval, as a share
    largest_psnr_delta_fixed: of psnr_delta_same_order without densification, the scene with the largest. Over all pairs
    with densification: quality_delta (PSNR ratio − 1) and equivalence_bound, the end of its 90 % interval that is
    farther from 0; …_same_order: of the ratios to waiting in the arm's own order.
    """
    found, pairs = Rows(name), cells.pairs("quality", "control")
    places = _places(pairs)
    for (scene, densify), group in places.items():
        _place(found, _where(scene, densify), group)
    if pairs:
        own = source(pairs)
        frame = found.frame()
        for quantity, densify in (("worst_psnr_delta", True), ("worst_psnr_delta_fixed", False)):
            _extreme(found, quantity, _of(frame, "psnr_delta", densify), own, largest=False)
        _pooled(found, places, own)
        _extreme(found, "largest_psnr_delta_fixed", _of(frame, "psnr_delta_same_order", False), own, largest=True)
    return found.frame()


def _place(found: Rows, where: str, group: Sequence[Pair]) -> None:
    own: dict[str, Any] = source(group, pipeline=group[0].pipeline, scene=where)
    deltas = _deltas(group)
    for arm, values in deltas.items():
        bounds = student_interval(values)
        found.add("psnr_delta", _mean(values), low=bounds.low.value, high=bounds.high.value, arm=arm, n=len(values),
                  unit="dB", **own)  # fmt: skip
    if CONTROL in deltas:
        control = deltas[CONTROL]
        found.add("perturbed_spread", _spread(control), arm=CONTROL, n=len(control), unit="dB", **own)
    for arm in ARMS:
        same = [d for pair in group if (d := _same_order(pair, arm)) is not None]
        if same:
            found.add("psnr_delta_same_order", _mean(same), low=min(same), high=max(same), arm=arm, n=len(same),
                      unit="dB", **own)  # fmt: skip
        ratios = _ratios(group, arm)
        if len(ratios) > 1:
            half = equivalence(ratios, MARGIN).half_width.value
            found.add("equivalence_half_width", half, arm=arm, n=len(ratios), unit="share", **own)


def _pooled(found: Rows, places: Places, own: Mapping[str, Any]) -> None:
    for kind, reference in (("", _to_barrier), ("_same_order", _to_own_order)):
        for arm, ratios in _pools(places, reference).items():
            pool = ratios_of(ratios)
            low, high = (None if b.value is None else b.value - 1 for b in (pool.student.low, pool.student.high))
            more: dict[str, Any] = {"arm": arm, "n": pool.n, "unit": "share", **own}
            found.add(f"quality_delta{kind}", pool.geometric - 1, low=low, high=high, **more)
            half = equivalence(ratios, MARGIN, least=2).half_width.value
            found.add(f"equivalence_bound{kind}", None if half is None else abs(pool.geometric - 1) + half, **more)


def _extreme(found: Rows, quantity: str, frame: pd.DataFrame, own: Mapping[str, Any], *, largest: bool) -> None:
    """Of each arm the scene with the lowest value, or with the largest one whatever its sign, which is dropped."""
    for arm, rows in frame.groupby("arm", sort=False):
        if largest:
            row = rows.loc[rows["value"].abs().idxmax()]
            found.add(quantity, abs(row["value"]), scene=row["scene"], arm=str(arm), n=len(rows), unit="dB", **own)
        else:
            row = rows.loc[rows["value"].idxmin()]
            bounds: dict[str, Any] = {end: None if row[end] != row[end] else row[end] for end in ("low", "high")}
            found.add(
                quantity, row["value"], scene=row["scene"], arm=str(arm), n=int(row["n"]), unit="dB", **bounds, **own
            )


def _of(frame: pd.DataFrame, quantity: str, densify: bool) -> pd.DataFrame:
    """Rows of arms, not of the control, with or without densification."""
    kind = frame["scene"].str.endswith(_where("", densify))
    return frame[(frame["quantity"] == quantity) & frame["arm"].isin(ARMS) & kind]


def remarks(cells: Cells) -> list[str]:
    """The findings, for the caption."""
    return list(findings(rows(cells), _places(cells.pairs("quality", "control"))))


def findings(frame: pd.DataFrame, places: Places) -> Iterator[str]:
    """Worst scenes, the pooled test and those of single scenes, each beside the spread of perturbed controls."""
    for quantity, kind in (("worst_psnr_delta", "on"), ("worst_psnr_delta_fixed", "off")):
        own = frame[frame["quantity"] == quantity].to_dict("records")
        each = [f"{row['arm']} {signed(row['value'])} ({short([row['scene'].partition(', ')[0]])[0]})" for row in own]
        if each:
            yield f"Worst scene with densification {kind}, the control apart: {listed(each)}."
    pools = [
        f"{arm} {points(ratios_of(ratios).geometric - 1)}, {_verdict(ratios, LEAST_POOLED)}"
        for arm, ratios in _pools(places).items()
    ]
    margin = f"±{100 * MARGIN:g} %"
    if pools:
        yield (
            f"All scenes pooled, densification on (two one-sided tests against {margin}, from {LEAST_POOLED} pairs "
            f"on): {'; '.join(pools)}."
        )
    singles = [text for (scene, densify), group in places.items() if densify and (text := _single(scene, group))]
    if singles:
        yield (
            f"Single scenes, densification on (against {margin}, from {LEAST_TO_CLASSIFY} pairs on): "
            f"{'. '.join(singles)}."
        )


def _single(scene: str, group: Sequence[Pair]) -> str:
    """The verdicts of one scene beside the spread of its control; the empty string without a pair."""
    each = [f"{arm} {_verdict(ratios, LEAST_TO_CLASSIFY)}" for arm in ARMS if (ratios := _ratios(group, arm))]
    control = _deltas(group).get(CONTROL)
    beside = f"; perturbed barrier spreads over {_spread(control):.2f} dB (n = {len(control)})" if control else ""
    return f"{short([scene])[0]}: {'; '.join(each)}{beside}" if each else ""


def _verdict(ratios: Sequence[float], least: int) -> str:
    """With n, which a verdict may have in it already."""
    text = equivalence(ratios, MARGIN, least=least).verdict
    return text if "n = " in text else f"{text} (n = {len(ratios)})"


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
                _scene(axes, y, _deltas(places.get((scene, densify), ())))
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.set_title(f"densification {'on' if densify else 'off'}", loc="left", fontsize=8)
            axes.set_xlabel(f"test PSNR − barrier's, dB ({evidence(rows)})")
            axes.set_yticks(range(len(scenes)), short(scenes))
            axes.set_ylim(len(scenes) - 0.5, -0.5)
        legend_outside(figure, grid[0])
        return figure


def _scene(axes: Axes, y: int, found: Mapping[str, Sequence[float]]) -> None:
    """Seeds, mean and interval of every arm around a line, over the spread of the control."""
    if CONTROL in found:
        low, high = min(0.0, *found[CONTROL]), max(0.0, *found[CONTROL])
        axes.fill_between([low, high], y - 0.45, y + 0.45, color="0.92", lw=0, zorder=0)
    for place, (arm, values) in enumerate(found.items()):
        at, style = y + 0.18 * (place - (len(found) - 1) / 2), _style(arm)
        bounds = student_interval(values)
        if bounds.low.value is not None and bounds.high.value is not None:
            axes.plot([bounds.low.value, bounds.high.value], [at, at], "-", color=style["color"], lw=1.1)
        axes.plot(values, [at] * len(values), ".", ms=3, color=style["color"])
        axes.plot([_mean(values)], [at], ls="none", ms=5, mec="white", mew=0.4, label=arm, **style)


def _style(arm: str) -> dict[str, Any]:
    return {"color": "0.5", "marker": "h"} if arm == CONTROL else arm_style(arm)


def _where(scene: str, densify: bool) -> str:
    return f"{scene}, densification {'on' if densify else 'off'}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _spread(control: Sequence[float]) -> float:
    """From the lowest to the highest, the unperturbed run among them."""
    return max(0.0, *control) - min(0.0, *control)


def _perturb(pair: Pair) -> float:
    return float(pair.setting("pipeline", "perturb"))


def _places(pairs: Sequence[Pair]) -> dict[tuple[str, bool], tuple[Pair, ...]]:
    found: dict[tuple[str, bool], tuple[Pair, ...]] = {}
    for pair in pairs:
        place = (pair.scene, bool(pair.setting("pipeline", "densify")))
        found[place] = (*found.get(place, ()), pair)
    return found


def _to_barrier(arm: str) -> str:
    return BASELINE


def _to_own_order(arm: str) -> str:
    """The arm that waits for everything with the same views in the same order; the empty string for that one."""
    return "" if arm == PLANNED else arm_named(arm).reference


def _pools(places: Places, reference: Callable[[str], str] = _to_barrier) -> dict[str, list[float]]:
    """Arm → PSNR ratios of all pairs with densification, to `reference` of each arm."""
    every = {
        arm: [r for (_, on), group in places.items() if on for r in _ratios(group, arm, reference(arm))]
        for arm in ARMS
        if reference(arm)
    }
    return {arm: ratios for arm, ratios in every.items() if ratios}


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
    reference = _to_own_order(arm)
    return decibels(pair, arm, reference) if reference and _perturb(pair) == 0.0 else None


def _ratios(group: Sequence[Pair], arm: str, reference: str = BASELINE) -> list[float]:
    """PSNR ÷ that of the reference on the same seed."""
    return [ratio for pair in group if (ratio := _ratio(pair, arm, reference)) is not None]


def _ratio(pair: Pair, arm: str, reference: str) -> float | None:
    if _perturb(pair) != 0.0:
        return None
    ours, theirs = psnr(pair, arm), psnr(pair, reference)
    return None if not ours or not theirs else ours / theirs
