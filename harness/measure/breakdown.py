"""Where the time of a cell goes, and how much of the baseline's loss an arm hides (D§7).

Legend: W ranks, S steps. Seconds per step are means over ranks and steps unless a name says "by_rank".

    useful   = render, loss, backward, update          lost = step − useful
    a rank that waits [w0, w1] loses skew = max(0, min(w1, last join) − w0) and transfer = the remainder
    step     = useful + transfer + skew + odin + structural + other
"""

from __future__ import annotations

import math
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import model_validator

from harness.measure.timeline import check_steps, check_timeline
from harness.store.record import Reading, Record
from odin.errors import InputError

# Stamps of one rank come from one monotonic clock, so rows that overlap by more than this were counted twice.
CLOCK_TOLERANCE = 1e-6

# Sums of stamps carry rounding of this size; a loss below it is none, so no share of it is printed.
NOTHING = 1e-9

PARTS = ("useful", "transfer", "skew", "odin", "structural", "other")


class Breakdown(Record):
    """Where the time of one cell goes, in seconds per step.

    step:           wall time of the cell ÷ steps
    other:          what no row accounts for, e.g. Python between phases; part of `lost`
    wait_by_rank:   [W], idle time of each rank
    useful_by_rank: [W], useful time of each rank
    hideable:       share (0…1) of the transfer that the next step's useful time could cover
    """

    ranks: int
    steps: int
    step: float
    useful: float
    transfer: float
    skew: float
    odin: float
    structural: float
    other: float
    wait_by_rank: tuple[float, ...]
    useful_by_rank: tuple[float, ...]
    hideable: Reading

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        parts = math.fsum(getattr(self, name) for name in PARTS)
        if not math.isclose(parts, self.step, rel_tol=1e-9, abs_tol=1e-9):
            raise ValueError(f"the parts of a step sum to {parts} s, not to the step's {self.step} s")
        if not len(self.wait_by_rank) == len(self.useful_by_rank) == self.ranks:
            raise ValueError(f"{self.ranks} ranks need as many idle and useful times")
        return self

    @property
    def lost(self) -> float:
        """step − useful, s."""
        return self.step - self.useful

    @property
    def idle_by_rank(self) -> tuple[float, ...]:
        """Share (0…1) of its time that each rank waits, [W]: what Fig. 1 shows per GPU."""
        return tuple(wait / self.step for wait in self.wait_by_rank)

    @property
    def idle_text(self) -> str:
        """Mean idle share of the ranks, the least and the most idle one where they differ: "21.2 % (19.8–22.6)"."""
        shares = [100 * share for share in self.idle_by_rank]
        low, high = f"{min(shares):.1f}", f"{max(shares):.1f}"
        return f"{sum(shares) / len(shares):.1f} %" + (f" ({low}–{high})" if low != high else "")


class Comparison(Record):
    """An arm against the baseline; shares in 0…1 (negative: the arm loses more than the baseline).

    exposed:         the arm's transfer ÷ the baseline's step
    hidden:          1 − Σ lost(arm) ÷ Σ lost(baseline) over all steps
    hidden_transfer, hidden_skew: the same of that part alone
    """

    exposed: Reading
    hidden: Reading
    hidden_transfer: Reading
    hidden_skew: Reading


def breakdown(timeline: pd.DataFrame, steps: pd.DataFrame) -> Breakdown:
    """The breakdown of one cell from its two frames.

    Raises InputError when a row lies outside the cell, names a rank or step the steps frame does not have, or
    overlaps another row of its rank (its time would be counted twice).
    """
    check_timeline(timeline)
    check_steps(steps)
    ranks, numbers = np.unique(steps["rank"]), np.unique(steps["step"])
    own = timeline[timeline["kind"] != "collective"]
    _check_inside(own, steps)
    _check_disjoint(own)
    seconds = _seconds(own, ranks, numbers)
    wall = float(steps["end"].max() - steps["start"].min())
    per_step = {name: float(part.mean()) for name, part in seconds.items()}
    closed = steps.groupby("step")["structural"].first().sort_index().to_numpy()
    return Breakdown(
        ranks=len(ranks),
        steps=len(numbers),
        step=wall / len(numbers),
        **per_step,
        other=wall / len(numbers) - math.fsum(per_step.values()),
        wait_by_rank=tuple((seconds["transfer"] + seconds["skew"]).mean(axis=1)),
        useful_by_rank=tuple(seconds["useful"].mean(axis=1)),
        hideable=_hideable(seconds["transfer"], seconds["useful"], closed),
    )


def compare(arm: Breakdown, baseline: Breakdown) -> Comparison:
    """The arm against the baseline. Raises InputError when ranks or steps of the two differ in number."""
    if (arm.ranks, arm.steps) != (baseline.ranks, baseline.steps):
        raise InputError(
            f"Cannot compare {arm.ranks} ranks × {arm.steps} steps with a baseline of {baseline.ranks} × "
            f"{baseline.steps}: the sums run over all steps of both."
        )
    return Comparison(
        exposed=_share(arm.transfer, baseline.step, "the baseline's step takes no time"),
        hidden=_hidden(arm.lost, baseline.lost, "the baseline loses no time"),
        hidden_transfer=_hidden(arm.transfer, baseline.transfer, "the baseline waits for no transfer"),
        hidden_skew=_hidden(arm.skew, baseline.skew, "the baseline waits for no slower rank"),
    )


def limit(baseline: Breakdown) -> Reading:
    """The speedup at which nothing is lost: the baseline's step ÷ mean useful time of its busiest rank.

    The busiest rank is the one with the most useful time over all steps: without barriers a rank that is
    slow in one step catches up in another.
    """
    return _share(baseline.step, max(baseline.useful_by_rank), "no rank does useful work")


def mean_breakdown(repeats: list[Breakdown]) -> Breakdown:
    """Mean over repeats of one arm, field by field. Raises InputError on none or on unequal sizes."""
    if len({(one.ranks, one.steps) for one in repeats}) != 1:
        raise InputError("A mean breakdown needs repeats of one number of ranks and steps.")
    return Breakdown(
        ranks=repeats[0].ranks,
        steps=repeats[0].steps,
        **{name: float(np.mean([getattr(one, name) for one in repeats])) for name in ("step", *PARTS)},
        wait_by_rank=tuple(np.mean([one.wait_by_rank for one in repeats], axis=0)),
        useful_by_rank=tuple(np.mean([one.useful_by_rank for one in repeats], axis=0)),
        hideable=Reading.mean([one.hideable for one in repeats], "no repeats"),
    )


def _seconds(own: pd.DataFrame, ranks: NDArray[np.int64], numbers: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
    """Seconds of every part but `other`, each [W, S]."""
    start, end = own["start"].to_numpy(), own["end"].to_numpy()
    category = own["category"].to_numpy()
    waits = category == "wait"
    # last_join is NaN in phases, where `waits` is False and the value is not used.
    late = np.where(waits, np.minimum(end, own["last_join"].to_numpy()) - start, 0.0)
    skew = np.maximum(late, 0.0)
    length = end - start
    parts = {name: np.where(category == name, length, 0.0) for name in ("useful", "odin", "structural")}
    parts |= {"skew": skew, "transfer": np.where(waits, length - skew, 0.0)}
    cell = np.searchsorted(ranks, own["rank"]), np.searchsorted(numbers, own["step"])
    seconds = {}
    for name, values in parts.items():
        seconds[name] = np.zeros((len(ranks), len(numbers)))
        np.add.at(seconds[name], cell, values)
    return seconds


def _hideable(transfer: NDArray[np.float64], useful: NDArray[np.float64], closed: NDArray[np.bool_]) -> Reading:
    """Both [W, S]; `closed` [S] marks steps followed by a structural event. The last step has no next one."""
    cover = np.minimum(transfer[:, :-1], useful[:, 1:])[:, ~closed[:-1]]
    return _share(float(cover.sum()), float(transfer.sum()), "no rank waits for a transfer")


def _share(part: float, whole: float, zero: str) -> Reading:
    return Reading.ratio(part, whole if abs(whole) > NOTHING else 0.0, zero)


def _hidden(arm: float, baseline: float, zero: str) -> Reading:
    share = _share(arm, baseline, zero)
    return share if share.value is None else Reading.of(1.0 - share.value)


def _check_inside(own: pd.DataFrame, steps: pd.DataFrame) -> None:
    begin, finish = steps["start"].min() - CLOCK_TOLERANCE, steps["end"].max() + CLOCK_TOLERANCE
    known = own["rank"].isin(steps["rank"]) & own["step"].isin(steps["step"])
    outside = ~known | (own["start"] < begin) | (own["end"] > finish)
    if outside.any():
        row = own[outside].iloc[0].to_dict()
        raise InputError(
            f"A timeline row lies outside the cell's steps ({begin:.6f}…{finish:.6f} s): {row}. Set-up and "
            "evaluation do not belong in a timeline; the last step ends after its publication."
        )


def _check_disjoint(own: pd.DataFrame) -> None:
    # In order of start, rows that do not overlap their neighbour overlap no other row either.
    for rank, rows in own.sort_values(["start", "end"], kind="stable").groupby("rank"):
        start, end = rows["start"].to_numpy(), rows["end"].to_numpy()
        overlap = np.flatnonzero(start[1:] < end[:-1] - CLOCK_TOLERANCE)
        if overlap.size:
            outer, inner = rows["name"].to_numpy()[overlap[0] : overlap[0] + 2]
            raise InputError(
                f"Rank {rank}: {inner!r} starts at {start[overlap[0] + 1]:.6f} s, before {outer!r} has ended at "
                f"{end[overlap[0]]:.6f} s; the overlap would be counted twice."
            )
