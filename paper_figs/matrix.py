"""How fast the matrix is as a whole: the headline's rows on ratios, limits and hidden shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, geometric_mean

from harness.measure.breakdown import NOTHING, Breakdown
from harness.report.clocks import JITTERED
from harness.report.summary import BASELINE, Numbers
from odin.arms import arm as arm_named
from paper_figs.cells import Cells, Pair, over_seeds, source
from paper_figs.paper import stated
from paper_figs.tidy import Rows

ARMS = ("quality", "quality-random", "throughput", "predicted", "predicted-random")
DEFAULT = "throughput"  # the paper's; its numbers stand beside this arm's

Value = Callable[[Pair], float | None]
Comparison = Callable[[Numbers, Numbers], float | None]


def same_order(pair: Pair, arm: str) -> Numbers | None:
    """What an arm shows against waiting for everything in its own order of views; None where it has not run or failed.

    For arms in `barrier`'s order that is `Pair.numbers`; those in the plan's stand beside `barrier-planned`, from which
    no difference of quality between the two orders separates them.
    """
    if arm == BASELINE or arm_named(arm).reference == BASELINE:
        return pair.numbers(arm)
    return next((row.numbers for row in pair.headline.same_order if row.arm == pair.called(arm)), None)


def hidden_wait(arm: Breakdown, base: Breakdown) -> float | None:
    """1 − waits ÷ the baseline's, for a transfer and for a slower rank together (negative: the arm waits more).

    What the paper's 82 % is of: an arm's own work does not lower it. None where the baseline waits for nothing.
    """
    waits = base.transfer + base.skew
    return None if waits < NOTHING else 1.0 - (arm.transfer + arm.skew) / waits


def of_hideable(arm: Numbers, base: Numbers) -> float | None:
    """hidden-transfer ÷ hideable; above 1 where an arm also hides transfer of structural windows, which hideable leaves
    out."""
    hidden, hideable = arm.against.hidden_transfer.value, base.parts.hideable.value
    return None if hidden is None or not hideable else hidden / hideable


def from_skew(arm: Numbers, base: Numbers) -> float:
    """What of a ratio comes from skew: the ratio less the one that the baseline's skew would leave of it."""
    kept = 1.0 / arm.speedup + (base.parts.skew - arm.parts.skew) / base.parts.step
    return arm.speedup - 1.0 / kept


SHARES: Mapping[str, Comparison] = {
    "hidden": lambda arm, _: arm.against.hidden.value,
    "hidden_wait": lambda arm, base: hidden_wait(arm.parts, base.parts),
    "hidden_transfer": lambda arm, _: arm.against.hidden_transfer.value,
    "hidden_transfer_of_hideable": of_hideable,
}
OWN_ORDER = ("hidden_wait", "hidden_transfer_of_hideable")  # those that also stand against waiting in the same order


def over_places(pairs: Sequence[Pair], value: Value, mean: Callable[[Sequence[float]], float] = fmean) -> list[float]:
    """One number per place, the mean over its seeds; places without one are left out."""
    found = []
    for group in over_seeds(pairs):
        known = [one for pair in group if (one := value(pair)) is not None]
        found += [mean(known)] if known else []
    return found


def ratios(pairs: Sequence[Pair], arm: str) -> list[float]:
    """An arm's ratio over `barrier` in every place that has one, the geometric mean over seeds."""
    return over_places(pairs, against(arm, BASELINE, _speedup), geometric_mean)


def against(arm: str, baseline: str, of: Comparison) -> Value:
    """Of a pair: something of an arm, beside a baseline that is `barrier` or the waiting arm of its order."""
    numbers = Pair.numbers if baseline == BASELINE else same_order

    def value(pair: Pair) -> float | None:
        ours, base = numbers(pair, arm), numbers(pair, baseline)
        return None if ours is None or base is None else of(ours, base)

    return value


def add_speedups(found: Rows, cells: Cells) -> None:
    """matrix_cells; mean_speedup (and _real, _same_order, _from_skew, _slowdown_…); cells_slowdown_…"""
    matrix = cells.pairs("matrix")
    _count(found, "matrix_cells", matrix)
    _means(found, matrix, "mean_speedup", paper=True)
    _means(found, [pair for pair in matrix if pair.real], "mean_speedup_real")
    own = source(matrix, unit="ratio")
    for arm in ARMS:
        waiting = over_places(matrix, against(arm, arm_named(arm).reference, _speedup), geometric_mean)
        found.add_mean("mean_speedup_same_order", waiting, arm=arm, **own)
        found.add_mean("mean_speedup_from_skew", over_places(matrix, against(arm, BASELINE, from_skew)), arm=arm, **own)
    for slowdown in sorted({_slowdown(pair) for pair in cells.pairs("slowdown")}):
        pairs = [pair for pair in cells.pairs("slowdown") if _slowdown(pair) == slowdown]
        _count(found, f"cells_slowdown_{slowdown:g}", pairs)
        _means(found, pairs, f"mean_speedup_slowdown_{slowdown:g}")


def add_jitter(found: Rows, matrix: Sequence[Pair]) -> None:
    """speedup_jittered: as mean_speedup, where phases vary; low and high are the smallest and the largest re-timing."""
    for arm in ARMS:
        known = [one.jittered for pair in matrix if (one := pair.numbers(arm)) is not None]
        if known and all(known) and len({len(draws) for draws in known}) == 1:
            means = [fmean(draw) for draw in zip(*known, strict=True)]
            found.add(JITTERED, fmean(means), low=min(means), high=max(means), n=len(means), arm=arm, unit="ratio",
                      **source(matrix))  # fmt: skip


def add_limits(found: Rows, matrix: Sequence[Pair]) -> None:
    """mean_limit, mean_exposed of barrier, and mean_limit_no_skew."""
    own = source(matrix)
    found.add_mean("mean_limit", over_places(matrix, lambda pair: pair.limit), unit="ratio", **own)
    # Without skew: if only the waits for a transfer were gone. The rest of the limit is what ranks wait for each other.
    exposed = over_places(matrix, against(BASELINE, BASELINE, lambda one, _: one.against.exposed.value))
    found.add_mean("mean_exposed", exposed, arm=BASELINE, unit="share", **own)
    found.add_mean("mean_limit_no_skew", [1.0 / (1.0 - share) for share in exposed], unit="ratio", **own)


def add_hidden(found: Rows, matrix: Sequence[Pair]) -> None:
    """hidden, hidden_wait, hidden_transfer and …_of_hideable, the second and the last also …_same_order; and
    mean_odin_share, Odin's own work ÷ step."""
    own = source(matrix, unit="share")
    for arm in ARMS:
        for quantity, share in SHARES.items():
            paper = stated("Abstract", "hidden") if (quantity, arm) == ("hidden_wait", DEFAULT) else None
            found.add_mean(quantity, over_places(matrix, against(arm, BASELINE, share)), arm=arm, paper=paper, **own)
        for quantity in OWN_ORDER:
            values = over_places(matrix, against(arm, arm_named(arm).reference, SHARES[quantity]))
            found.add_mean(f"{quantity}_same_order", values, arm=arm, **own)
        work = over_places(matrix, against(arm, BASELINE, lambda one, _: one.parts.odin / one.parts.step))
        found.add_mean("mean_odin_share", work, arm=arm, **own)


def _count(found: Rows, quantity: str, pairs: Sequence[Pair]) -> None:
    """Places with a record, of each pipeline and of all."""
    for pipeline in ("", *dict.fromkeys(pair.pipeline for pair in pairs)):
        own = [pair for pair in pairs if pipeline in ("", pair.pipeline)]
        if own:
            places = len(over_seeds(own))
            found.add(quantity, places, n=places, unit="cells", pipeline=pipeline, **source(own))


def _means(found: Rows, pairs: Sequence[Pair], quantity: str, *, paper: bool = False) -> None:
    for arm in ARMS:
        beside = stated("Abstract", "mean_speedup") if paper and arm == DEFAULT else None
        found.add_mean(quantity, ratios(pairs, arm), arm=arm, unit="ratio", paper=beside, **source(pairs))


def _speedup(numbers: Numbers, _: Numbers) -> float:
    return numbers.speedup


def _slowdown(pair: Pair) -> float:
    return float(pair.setting("compute", "overlap_slowdown"))
