"""Intervals of a mean: Student t, and the bias-corrected accelerated bootstrap beside it.

Arrays: n values of one sample. Both work on what is given; for ratios that is the logarithms
(`harness.statistics.ratios`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from harness.store.record import Reading, Record
from odin.errors import InputError

RESAMPLES = 4999
COVERAGE_SAMPLES, COVERAGE_CHUNK = 4000, 50
COVERAGE_RESAMPLES = 999
# Means of resamples of so few values are too coarse for a percentile to mean anything: 3 values have 10 of them.
LEAST_FOR_BOOTSTRAP = 5


class Interval(Record):
    """Bounds of a mean at `confidence`, or why there are none. In the unit of the values."""

    low: Reading
    high: Reading
    confidence: float

    @classmethod
    def absent(cls, reason: str, confidence: float) -> Interval:
        """No bounds, and why."""
        return cls(low=Reading.absent(reason), high=Reading.absent(reason), confidence=confidence)

    def exp(self) -> Interval:
        """From logarithms to ratios."""
        return Interval(low=_exp(self.low), high=_exp(self.high), confidence=self.confidence)


def student_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Student t: exact for normal values at any n ≥ 2. Raises InputError on a value that is not finite."""
    x = checked(values)
    if len(x) < 2:
        return Interval.absent("n/a: an interval needs two pairs", confidence)
    half = student.ppf(0.5 + confidence / 2, len(x) - 1) * x.std(ddof=1) / math.sqrt(len(x))
    return _interval(x.mean() - half, x.mean() + half, confidence)


def bca_interval(
    values: Sequence[float], confidence: float = 0.95, *, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """BCa bootstrap of the mean (Efron 1987): no assumption on the distribution, but too narrow for few values.

    `bca_coverage` says how narrow. Raises InputError on a value that is not finite.
    """
    x = checked(values)
    if len(x) < LEAST_FOR_BOOTSTRAP:
        return Interval.absent(f"n/a: a bootstrap needs {LEAST_FOR_BOOTSTRAP} pairs", confidence)
    if np.ptp(x) == 0.0:
        return _interval(x[0], x[0], confidence)
    drawn = np.random.default_rng(seed).integers(0, len(x), (resamples, len(x)))
    low, high = _bca(x[None, :], x[drawn].mean(axis=1)[None, :], confidence)
    return _interval(low[0], high[0], confidence)


@cache
def bca_coverage(n: int, confidence: float = 0.95, seed: int = 0) -> float:
    """How often BCa intervals of n normal values hold their mean, simulated (a share; the nominal one is `confidence`).

    Monte Carlo error: standard error √(0.95 · 0.05 / COVERAGE_SAMPLES), 0.3 points at 95 %.
    """
    rng, inside = np.random.default_rng(seed), 0
    for _ in range(COVERAGE_SAMPLES // COVERAGE_CHUNK):
        x = rng.standard_normal((COVERAGE_CHUNK, n))
        # [R, n], how often each value is drawn. Samples of a chunk share the resamples: more would share their error.
        times = rng.multinomial(n, np.full(n, 1 / n), COVERAGE_RESAMPLES)
        low, high = _bca(x, x @ times.T / n, confidence)
        inside += int(((low <= 0.0) & (high >= 0.0)).sum())
    return inside / COVERAGE_SAMPLES


def checked(values: Sequence[float]) -> np.ndarray:
    """The values as float64 [n]. Raises InputError when there is none, or one is not finite."""
    x = np.asarray(values, float)
    if x.ndim != 1 or not len(x) or not np.isfinite(x).all():
        raise InputError(f"Expected finite values, at least one; got {list(values)}.")
    return x


def _bca(x: np.ndarray, means: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Bounds [S] for S samples. x [S, n]: their values; means [S, R]: the means of their resamples."""
    centre = x.mean(axis=1, keepdims=True)
    # A resample's mean that equals the sample's counts half, or bias would be seen where there is none.
    below = (means < centre).mean(axis=1) + 0.5 * (means == centre).mean(axis=1)
    bias = norm.ppf(np.clip(below, 1 / (means.shape[1] + 1), means.shape[1] / (means.shape[1] + 1)))
    left_out = (x.sum(axis=1, keepdims=True) - x) / (x.shape[1] - 1)
    away = left_out.mean(axis=1, keepdims=True) - left_out
    acceleration = (away**3).sum(axis=1) / (6 * (away**2).sum(axis=1) ** 1.5)
    bounds = []
    ordered = np.sort(means, axis=1)
    for tail in (0.5 - confidence / 2, 0.5 + confidence / 2):
        z = bias + norm.ppf(tail)
        share = norm.cdf(bias + z / (1 - acceleration * z))
        bounds.append(_quantile(ordered, share))
    return bounds[0], bounds[1]


def _quantile(ordered: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The share[s] quantile of each sorted row, interpolated; [S]."""
    place = share * (ordered.shape[1] - 1)
    floor = np.clip(place.astype(np.int64), 0, ordered.shape[1] - 2)
    rows = np.arange(len(ordered))
    low, high = ordered[rows, floor], ordered[rows, floor + 1]
    return low + (place - floor) * (high - low)


def _interval(low: float, high: float, confidence: float) -> Interval:
    return Interval(low=Reading.of(low), high=Reading.of(high), confidence=confidence)


def _exp(reading: Reading) -> Reading:
    return reading if reading.value is None else Reading.of(math.exp(reading.value))
