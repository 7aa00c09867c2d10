"""Fig. 10: throughput by number of ranks and global batch; the gain narrows as B grows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from paper_figs.cells import Cells, Pair, over_seeds, place, speedups
from paper_figs.drawing import (
    SPEEDUP,
    arm_style,
    canvas,
    failed_legend,
    failed_mark,
    in_style,
    legend_above,
    ratio_axis,
    without_number,
)
from paper_figs.exhibit import Need, Study
from paper_figs.tidy import Rows, evidence
from paper_figs.wording import listed, percent

name = "fig10"
title = "Fig. 10: Throughput by ranks and global batch B"
note = (
    "Left: images per second over B, darker for more ranks, barrier (squares, dashed) and throughput-first (circles). "
    "Right: speedup over barrier, with other arms at the most ranks; a line breaks where an arm failed a gate, a cross "
    "in its colour at 1. quality-random and predicted-random are in barrier's own order of views."
)
needs: tuple[Need, ...] = (Study(role="batch"),)
ARMS = ("barrier", "throughput", "quality", "predicted", "quality-random", "predicted-random")
BASELINE, SHOWN, *BESIDE = ARMS
APART = 1.07  # between crosses of one B


def rows(cells: Cells) -> pd.DataFrame:
    """images_per_second and speedup of each arm; the scene names ranks and B."""
    found = Rows(name)
    for group in over_seeds(cells.pairs("batch")):
        first = group[0]
        own = place(group, scene=f"{first.scene}, W = {first.ranks}, B = {first.batch}")
        for arm in ARMS:
            rates = [n.images_per_second for pair in group if (n := pair.numbers(arm)) is not None]
            found.add_mean("images_per_second", rates, arm=arm, unit="images/s", **own)
            if arm != BASELINE:
                found.add_ratios("speedup", speedups(group, arm), arm=arm, unit="ratio", **own)
    return found.frame()


def remarks(cells: Cells) -> list[str]:
    """The findings, for the caption."""
    return list(findings(rows(cells)))


def findings(frame: pd.DataFrame) -> Iterator[str]:
    """How the gain changes with B and with ranks; means over scenes."""
    sized = _sized(frame[frame["quantity"] == "speedup"])
    tables = {
        arm: sized[sized["arm"] == arm].pivot_table(index="ranks", columns="batch", values="value") for arm in ARMS[1:]
    }
    by_batch = {
        arm: [line for _, own in table.iterrows() if len(line := own.dropna()) > 1] for arm, table in tables.items()
    }
    falls = {arm: all(line.is_monotonic_decreasing for line in lines) for arm, lines in by_batch.items() if lines}
    if SHOWN in falls:
        each = (f"{line.name} ranks {_gains(line)} (B = {_ints(line.index)})" for line in by_batch[SHOWN])
        said = (
            "narrows with B at every number of ranks, as the paper says" if falls[SHOWN] else "does NOT always narrow"
        )
        yield f"Gain of {SHOWN} over barrier: {'; '.join(each)}: it {said}."
    for so, how in ((True, "The gain narrows with B for"), (False, "The gain does NOT always narrow with B for")):
        arms = [arm for arm in BESIDE if falls.get(arm) is so]
        if arms:
            yield f"{how} {listed(arms)} too." if so is falls.get(SHOWN) else f"{how} {listed(arms)}."
    yield from _over_ranks(SHOWN, tables[SHOWN])
    yield from _gate(sized)


def _over_ranks(arm: str, table: pd.DataFrame) -> Iterator[str]:
    """At the B that most numbers of ranks share."""
    shared = table.notna().sum()
    if not len(shared) or shared.max() < 2:
        return
    own = table[shared.idxmax()].dropna()
    grows = "it grows with ranks" if own.is_monotonic_increasing else "it does not always grow with ranks"
    yield f"At B = {shared.idxmax()} {arm} gains {_gains(own)} on {_ints(own.index)} ranks: {grows}."


def _gate(sized: pd.DataFrame) -> Iterator[str]:
    """Whether the gate pays: quality waits for all that throughput waits for, and for the rows that pass."""
    both = sized.pivot_table(index="scene", columns="arm", values="value").reindex(columns=[SHOWN, "quality"]).dropna()
    if len(both):
        faster = both["quality"] > both[SHOWN]
        yield (
            f"quality, which waits for every row in conflict, is faster than {SHOWN} at {faster.sum()} of {len(both)} "
            "points that both pass."
        )


def _gains(values: pd.Series) -> str:
    return listed([percent(value) for value in values])


def _ints(values: Sequence[int]) -> str:
    return listed([str(value) for value in values])


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """Two panels over B."""
    sized = _sized(rows)
    groups = over_seeds(cells.pairs("batch"))
    counts = sorted({group[0].ranks for group in groups})
    lost = without_number(groups, ARMS)
    with canvas(2.9, 2) as (figure, (left, right)):
        for ranks, shade in zip(counts, _shades(len(counts)), strict=True):
            own = sized[sized["ranks"] == ranks]
            batches = sorted({group[0].batch for group in groups if group[0].ranks == ranks})
            for arm, dashes in ((BASELINE, "--"), (SHOWN, "-")):
                style = {"marker": arm_style(arm)["marker"], "ms": 4, "color": shade}
                text = f"{ranks} ranks" if arm == SHOWN else None
                left.plot(batches, _line(own, arm, "images_per_second", batches), dashes, label=text, **style)
            line = _line(own, SHOWN, "speedup", batches)
            right.plot(batches, line, "-o", ms=4, color=shade, label=f"{SHOWN}, {ranks} ranks")
            for arm in BESIDE if ranks == counts[-1] else ():
                line = _line(own, arm, "speedup", batches)
                if line.notna().any():
                    right.plot(batches, line, ":", ms=4, label=f"{arm}, {ranks} ranks", **arm_style(arm))
        crossed = _crosses(right, lost, counts)
        _axes(left, right, sized, evidence(rows))
        legend_above(left, 3)
        legend_above(right, 2, extra=failed_legend() if crossed else None)
        return figure


def _crosses(axes: Axes, lost: Sequence[tuple[Sequence[Pair], str]], counts: Sequence[int]) -> bool:
    """Crosses of what would be drawn; whether there are any."""
    drawn = [(g[0], arm) for g, arm in lost if arm == SHOWN or (arm in BESIDE and g[0].ranks == counts[-1])]
    for index, (pair, arm) in enumerate(drawn):
        same = [k for k, (other, _) in enumerate(drawn) if other.batch == pair.batch]
        shade = {"color": _shades(len(counts))[counts.index(pair.ranks)]} if arm == SHOWN else {}
        failed_mark(axes, pair.batch * APART ** (same.index(index) - (len(same) - 1) / 2), 1.0, arm, **shade)
    return bool(drawn)


def _axes(left: Axes, right: Axes, sized: pd.DataFrame, kind: str) -> None:
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(sorted(set(sized["batch"]))))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("global batch B")
    left.set_ylim(bottom=0)
    left.set_ylabel(f"images/s ({kind})")
    right.set_ylabel(f"{SPEEDUP} ({kind})")
    ratio_axis(right.yaxis, right, sized.loc[sized["quantity"] == "speedup", "value"])


def _line(own: pd.DataFrame, arm: str, quantity: str, batches: Sequence[int]) -> pd.Series:
    """Over B; NaN where there is no number, which breaks a line."""
    found = own[(own["arm"] == arm) & (own["quantity"] == quantity)]
    return found.groupby("batch")["value"].mean().reindex(batches)


def _sized(frame: pd.DataFrame) -> pd.DataFrame:
    """With W and B of the scene as columns."""
    sizes = {"ranks": r"W = (\d+)", "batch": r"B = (\d+)"}
    return frame.assign(**{name: frame["scene"].str.extract(how)[0].astype(int) for name, how in sizes.items()})


def _shades(count: int) -> list[str]:
    """Of throughput's colour, light to full."""
    full = to_rgb(arm_style(SHOWN)["color"])
    weights = [1.0 - 0.62 * (count - 1 - k) / max(count - 1, 1) for k in range(count)]
    return [to_hex([1 - weight * (1 - part) for part in full]) for weight in weights]
