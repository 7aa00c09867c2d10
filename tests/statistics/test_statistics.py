"""`harness.statistics` against worked examples, scipy, and simulated truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from harness.statistics.claims import cannot_claim, detectable, pairs_for_sign_test, smallest_rank_p, smallest_sign_p
from harness.statistics.intervals import _bca, bca_coverage, bca_interval, student_interval
from harness.statistics.ratios import equivalence, ratios_of, spread_text
from odin.errors import InputError

SAMPLE = [1.21, 1.34, 1.18, 1.27, 1.41, 1.22, 1.3]


def test_two_ratios_by_hand() -> None:
    found = ratios_of([1.0, 4.0])
    assert (found.n, found.geometric, found.arithmetic) == (2, pytest.approx(2.0), 2.5)
    # sd of (0, ln 4) is ln 4/√2, so the half width is t(0.975, 1) · ln 4/2 with t = 12.7062.
    assert found.student.high.value == pytest.approx(2 * math.exp(12.7062 * math.log(4) / 2), rel=1e-3)
    assert found.bca.low.reason == "n/a: a bootstrap needs 5 pairs"
    assert found.coverage.value is None
    assert ratios_of([1.3]).text() == "1.300 (n = 1, no interval)"
    assert ratios_of([1.3, 1.3]).text() == "1.300 (deterministic)"


def test_student_is_scipys() -> None:
    logs = np.log(SAMPLE)
    low, high = stats.ttest_1samp(logs, 0.0).confidence_interval(0.95)
    found = student_interval(logs)
    assert (found.low.value, found.high.value) == (pytest.approx(low), pytest.approx(high))
    assert ratios_of(SAMPLE).student.low.value == pytest.approx(math.exp(low))


@pytest.mark.parametrize("seed", range(6))
def test_bca_is_scipys_on_as_many_resamples(seed: int) -> None:
    """scipy takes the percentile of its own resamples; both draw enough that bounds agree to a share of the spread.
    Values are spread evenly enough that no bound falls into a gap between resampled means."""
    x = np.random.default_rng(seed).standard_normal(8 + seed)
    values = x.tolist()
    theirs = stats.bootstrap((x,), np.mean, method="BCa", n_resamples=4999, rng=np.random.default_rng(1))
    ours = bca_interval(values)
    width = theirs.confidence_interval.high - theirs.confidence_interval.low
    assert ours.low.value == pytest.approx(theirs.confidence_interval.low, abs=0.12 * width)
    assert ours.high.value == pytest.approx(theirs.confidence_interval.high, abs=0.12 * width)


def test_a_resample_without_skew_gives_the_percentiles() -> None:
    """Symmetric values have no acceleration, and symmetric resamples no bias: BCa is the plain percentile interval."""
    x = np.array([[-2.0, -1.0, 0.0, 1.0, 2.0]])
    means = np.linspace(-1, 1, 2001)[None, :]
    low, high = _bca(x, means, 0.9)
    assert (low[0], high[0]) == (pytest.approx(-0.9, abs=1e-3), pytest.approx(0.9, abs=1e-3))


@pytest.mark.parametrize("n", [5, 10, 20])
def test_student_covers_what_it_says(n: int) -> None:
    """Log-normal ratios around a known mean: 95 % intervals hold it in 95 ± 2 of 100 samples."""
    rng = np.random.default_rng(n)
    logs = rng.normal(math.log(1.2), 0.05, (4000, n))
    half = stats.t.ppf(0.975, n - 1) * logs.std(axis=1, ddof=1) / math.sqrt(n)
    inside = np.abs(logs.mean(axis=1) - math.log(1.2)) <= half
    assert abs(100 * inside.mean() - 95) < 2
    for row in logs[:20]:  # the vectorised interval above is the one that is shipped
        found = student_interval(row.tolist())
        assert found.high.value == pytest.approx(row.mean() + stats.t.ppf(0.975, n - 1) * row.std(ddof=1) / n**0.5)


def test_the_coverage_of_bca_is_told_not_assumed() -> None:
    """Too narrow for few pairs, and closer with more; that is why it stands beside Student's and not in its place."""
    few, some, many = bca_coverage(5), bca_coverage(10), bca_coverage(40)
    assert 0.75 < few < 0.91
    assert few < some < 0.95
    assert abs(many - 0.95) < 0.02
    found = ratios_of(SAMPLE)
    assert found.coverage.value == bca_coverage(7)
    assert found.student.low.value < found.bca.low.value < found.geometric < found.bca.high.value


def test_equivalence_by_the_interval() -> None:
    """TOST at 5 % says the same as the 90 % interval inside the margins."""
    rng = np.random.default_rng(0)
    for mean, sd, n in [(0.0, 0.002, 25), (0.004, 0.002, 25), (0.006, 0.002, 25), (0.0, 0.02, 25), (-0.004, 0.003, 48)]:
        logs = rng.normal(mean, sd, n)
        half = stats.t.ppf(0.95, n - 1) * logs.std(ddof=1) / math.sqrt(n)
        for margin in (0.01, 0.005):
            inside = math.log1p(-margin) < logs.mean() - half and logs.mean() + half < math.log1p(margin)
            found = equivalence(np.exp(logs).tolist(), margin)
            assert found.shown == inside
            assert (found.p.value < 0.05) == inside
            assert found.half_width.value == pytest.approx(math.expm1(half))


@pytest.mark.parametrize(
    ("mean", "spread", "verdict"),
    [
        (0.0, 0.002, "equivalent within ±0.5 %"),  # known to be equal
        (0.02, 0.002, "different by more than ±0.5 %"),  # known to differ, both ways
        (-0.02, 0.002, "different by more than ±0.5 %"),
        (0.005, 0.004, "not shown"),  # at the margin
        (0.0, 0.05, "not shown"),  # equal, but nobody could know
    ],
)
def test_known_cases_are_classified(mean: float, spread: float, verdict: str) -> None:
    """Values at fixed quantiles of a normal distribution, so that nothing is left to a draw."""
    logs = mean + spread * stats.norm.ppf((np.arange(24) + 0.5) / 24)
    assert equivalence(np.exp(logs).tolist(), 0.005).verdict.startswith(verdict)


def test_too_few_pairs_get_no_verdict() -> None:
    assert equivalence([1.0001, 0.9999, 1.0], 0.01).verdict == "n too small: half-width 0.02 %"
    assert equivalence([1.0001, 0.9999, 1.0], 0.01, least=3).verdict == "equivalent within ±1 %"
    assert equivalence([1.02, 1.03, 1.0], 0.005, least=3).verdict.startswith("not shown: half-width")
    assert equivalence([1.02, 1.03, 1.04], 0.005).verdict.startswith("n too small")  # also where it would differ
    assert equivalence([1.0], 0.01).verdict == "n too small: n = 1"
    assert equivalence([1.0] * 20, 0.005).p.value == 0.0
    assert equivalence([1.1] * 20, 0.005).p.value == 1.0
    with pytest.raises(InputError, match="margin"):
        equivalence([1.0], 1.0)


def test_the_tests_level_is_what_it_says() -> None:
    """A true difference exactly at the margin is called equivalent in 5 % of samples."""
    rng = np.random.default_rng(3)
    samples = np.exp(rng.normal(math.log1p(0.01), 0.01, (2000, 20)))
    wrong = sum(equivalence(row.tolist(), 0.01).shown for row in samples)
    assert 0.03 < wrong / 2000 < 0.07


def test_deterministic_quantities_say_so() -> None:
    assert spread_text([2.0, 2.0, 2.0]) == "2 (deterministic)"
    assert spread_text([2.0]) == "2 (one run)"
    assert spread_text([1.0, 3.0]) == "2 ± 1.414"


def test_what_three_seeds_cannot_claim() -> None:
    assert (smallest_sign_p(3), smallest_rank_p(3), pairs_for_sign_test()) == (0.25, 0.1, 6)
    text = "\n".join(cannot_claim(3))
    for words in ("sign test cannot reach p < 0.05", "0.25", "needs 6 pairs", "3 against 3", "±2.48", "3.26"):
        assert words in text
    assert list(cannot_claim(30)) == []
    assert len(list(cannot_claim(1))) == 1


@pytest.mark.parametrize("values", [[], [0.0], [-1.0], [1.0, math.nan], [math.inf]])
def test_what_is_no_ratio_is_refused(values: list[float]) -> None:
    for function in (ratios_of, lambda v: equivalence(v, 0.01)):
        with pytest.raises(InputError, match=r"positive|finite"):
            function(values)


@pytest.mark.parametrize("n", [3, 5, 20])
def test_the_detectable_difference_is_found_so_often(n: int) -> None:
    x = np.random.default_rng(n).normal(detectable(n), 1.0, (20000, n))
    t = x.mean(axis=1) / (x.std(axis=1, ddof=1) / math.sqrt(n))
    assert (t > stats.t.ppf(0.975, n - 1)).mean() == pytest.approx(0.8, abs=0.012)
