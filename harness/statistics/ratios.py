"""Ratios of pairs: geometric mean with intervals, the paper's arithmetic mean, equivalence to 1."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import t as student

from harness.statistics.intervals import Interval, bca_coverage, bca_interval, checked, student_interval
from harness.store.record import Reading, Record
from odin.errors import InputError

MARGINS = (0.01, 0.005)  # D§9
# With fewer pairs a single scene is not classified (D§11).
LEAST_TO_CLASSIFY = 20
DETERMINISTIC = "deterministic"


class Equivalence(Record):
    """Two one-sided t tests of the log-ratios against ln(1 − margin) and ln(1 + margin).

    p:          the larger of the two p-values; absent below two pairs
    half_width: of the 90 % interval that has to fit between the margins, as a share
    verdict:    "equivalent", "different" (the whole interval lies beyond a margin), "not shown" or "n too small", with
                the half width where it says why
    """

    margin: float
    p: Reading
    half_width: Reading
    verdict: str

    @property
    def shown(self) -> bool:
        """Equivalence is shown."""
        return self.verdict.startswith("equivalent")


class Ratios(Record):
    """n ratios of pairs.

    geometric:  with Student's interval on the logarithms, and BCa's beside it
    coverage:   how often BCa's holds the mean of n normal values, simulated; absent where BCa is
    arithmetic: the paper's mean; larger than the geometric one by half the variance of the logarithms
    constant:   all ratios are the same number
    """

    n: int
    geometric: float
    arithmetic: float
    student: Interval
    bca: Interval
    coverage: Reading
    constant: bool

    def text(self, form: str = ".3f") -> str:
        """For a table: the mean with Student's interval, or what it is instead."""
        mean = f"{self.geometric:{form}}"
        if self.constant and self.n > 1:
            return f"{mean} ({DETERMINISTIC})"
        low, high = self.student.low, self.student.high
        if low.value is None or high.value is None:
            return f"{mean} (n = {self.n}, no interval)"
        return f"{mean} [{low.value:{form}}, {high.value:{form}}] (n = {self.n})"


def ratios_of(ratios: Sequence[float], confidence: float = 0.95) -> Ratios:
    """Means and intervals of pair ratios. Raises InputError without a positive, finite ratio."""
    logs = log_ratios(ratios)
    listed = logs.tolist()
    bca = bca_interval(listed, confidence)
    absent = bca.low.value is None
    coverage = Reading.absent(str(bca.low.reason)) if absent else Reading.of(bca_coverage(len(logs), confidence))
    return Ratios(
        n=len(logs),
        geometric=float(np.exp(logs.mean())),
        arithmetic=float(np.mean(ratios)),
        student=student_interval(listed, confidence).exp(),
        bca=bca.exp(),
        coverage=coverage,
        constant=bool(np.ptp(logs) == 0.0),
    )


def equivalence(
    ratios: Sequence[float], margin: float, *, alpha: float = 0.05, least: int = LEAST_TO_CLASSIFY
) -> Equivalence:
    """Whether the ratios are shown to be 1 within ± margin, at level alpha.

    least: pairs below which no verdict is given
    Raises InputError without a positive ratio, or for a margin outside 0…1.
    """
    if not 0 < margin < 1:
        raise InputError(f"An equivalence margin is a share between 0 and 1, not {margin}.")
    logs = log_ratios(ratios)
    n = len(logs)
    if n < 2:
        reason = Reading.absent("n/a: a test needs two pairs")
        return Equivalence(margin=margin, p=reason, half_width=reason, verdict=f"n too small: n = {n}")
    error = logs.std(ddof=1) / math.sqrt(n)
    low, high = logs.mean() - math.log1p(-margin), math.log1p(margin) - logs.mean()
    if error == 0.0:
        p = 0.0 if low > 0 and high > 0 else 1.0
    else:
        p = float(max(student.sf(low / error, n - 1), student.sf(high / error, n - 1)))
    reach = float(student.ppf(1 - alpha, n - 1)) * error
    half = math.expm1(reach)
    if n < least:
        verdict = f"n too small: half-width {100 * half:.2f} %"
    elif p < alpha:
        verdict = f"equivalent within ±{100 * margin:g} %"
    elif low < -reach or high < -reach:
        verdict = f"different by more than ±{100 * margin:g} %"
    else:
        verdict = f"not shown: half-width {100 * half:.2f} %"
    return Equivalence(margin=margin, p=Reading.of(p), half_width=Reading.of(half), verdict=verdict)


def spread_text(values: Sequence[float], form: str = ".4g") -> str:
    """Mean ± standard deviation over repeats or seeds; "deterministic" where all of several values are the same."""
    x = checked(values)
    if len(x) > 1 and np.ptp(x) == 0.0:
        return f"{x[0]:{form}} ({DETERMINISTIC})"
    if len(x) == 1:
        return f"{x[0]:{form}} (one run)"
    return f"{x.mean():{form}} ± {x.std(ddof=1):{form}}"


def log_ratios(ratios: Sequence[float]) -> np.ndarray:
    """ln of the ratios, [n]. Raises InputError unless all are positive and finite."""
    x = checked(ratios)
    if not (x > 0).all():
        raise InputError(f"Expected positive ratios, at least one; got {list(ratios)}.")
    return np.log(x)
