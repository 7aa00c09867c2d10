"""Repeats and pairs: the typical time of an arm, the noise floor beside it, and means of ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import t as student

from harness.store.record import Reading, Record
from odin.errors import InputError


class Typical(Record):
    """The time that stands for an arm, s, and how it came from its repeats."""

    seconds: float
    how: str


class NoiseFloor(Record):
    """The same arm against itself: the largest |t_i / t_j − 1| over its repeats, and over all arms."""

    by_arm: dict[str, Reading]
    overall: Reading


class RatioMean(Record):
    """Ratios of n pairs: geometric mean with a Student t interval on the logarithms, and the paper's mean.

    low, high: bounds of the geometric mean at `confidence`; absent below two pairs
    """

    n: int
    geometric: float
    arithmetic: float
    low: Reading
    high: Reading
    confidence: float


def typical_time(seconds: Sequence[float]) -> Typical:
    """Median of the repeats; of two, their mean, in which a linear drift cancels as the order is mirrored.

    Raises InputError without a positive time.
    """
    _check_positive(seconds, "times")
    if len(seconds) == 1:
        return Typical(seconds=seconds[0], how="one run")
    if len(seconds) == 2:
        return Typical(seconds=float(np.mean(seconds)), how="mean of the mirrored pair")
    return Typical(seconds=float(np.median(seconds)), how=f"median of {len(seconds)} repeats")


def noise_floor(times: Mapping[str, Sequence[float]]) -> NoiseFloor:
    """Spread over the repeats of every arm, from times in s. An arm that ran once has none, and says so."""
    by_arm = {name: _spread(seconds) for name, seconds in times.items()}
    known = [spread.value for spread in by_arm.values() if spread.value is not None]
    overall = Reading.of(max(known)) if known else Reading.absent("n/a: no arm ran twice")
    return NoiseFloor(by_arm=by_arm, overall=overall)


def mean_ratio(ratios: Sequence[float], confidence: float = 0.95) -> RatioMean:
    """Mean of pair ratios. Raises InputError without a positive ratio."""
    _check_positive(ratios, "ratios")
    logs = np.log(np.asarray(ratios, float))
    low = high = Reading.absent("n/a: an interval needs two pairs")
    if len(logs) > 1:
        half = student.ppf(0.5 + confidence / 2, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
        low, high = Reading.of(np.exp(logs.mean() - half)), Reading.of(np.exp(logs.mean() + half))
    return RatioMean(
        n=len(logs),
        geometric=float(np.exp(logs.mean())),
        arithmetic=float(np.mean(ratios)),
        low=low,
        high=high,
        confidence=confidence,
    )


def _spread(seconds: Sequence[float]) -> Reading:
    _check_positive(seconds, "times")
    if len(seconds) < 2:
        return Reading.absent("n/a: one run")
    # |t_i / t_j − 1| is largest for the slowest over the fastest.
    return Reading.of(max(seconds) / min(seconds) - 1.0)


def _check_positive(values: Sequence[float], what: str) -> None:
    if not len(values) or not all(np.isfinite(v) and v > 0 for v in values):
        raise InputError(f"Expected positive {what}, at least one; got {list(values)}.")
