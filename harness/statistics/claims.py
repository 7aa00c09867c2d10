"""What n pairs cannot claim, however they come out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

from scipy.optimize import brentq
from scipy.stats import nct
from scipy.stats import t as student

ALPHA = 0.05
POWER = 0.8


def smallest_sign_p(n: int) -> float:
    """Smallest two-sided p of a sign test on n pairs: 2 / 2ⁿ, when all have the same sign."""
    return min(1.0, 2.0 ** (1 - n))


def smallest_rank_p(n: int) -> float:
    """Smallest two-sided p of a rank-sum test of n against n unpaired runs: 2 / (2n over n)."""
    return min(1.0, 2.0 / math.comb(2 * n, n))


def pairs_for_sign_test(alpha: float = ALPHA) -> int:
    """Fewest pairs with which a sign test can reach p < alpha."""
    n = 1
    while smallest_sign_p(n) >= alpha:
        n += 1
    return n


@cache
def detectable(n: int, alpha: float = ALPHA, power: float = POWER) -> float:
    """Smallest mean, in standard deviations over pairs, that a two-sided t test on n ≥ 2 pairs finds with this power.

    Finding it with the wrong sign does not count.
    """
    limit = float(student.ppf(1 - alpha / 2, n - 1))

    def lack(effect: float) -> float:
        return float(nct.sf(limit, n - 1, effect * math.sqrt(n))) - power

    most = 1.0
    while lack(most) < 0:
        most *= 2
    return float(brentq(lack, 0.0, most))


def cannot_claim(n: int) -> Iterator[str]:
    """Sentences for the reader of n pairs; none where nothing is out of reach."""
    if n < 2:
        yield f"n = {n}: no interval and no test; a spread over seeds needs two pairs."
        return
    least = pairs_for_sign_test()
    if n < least:
        yield (
            f"n = {n}: a sign test cannot reach p < {ALPHA:g} (its smallest p is {smallest_sign_p(n):g}; it needs "
            f"{least} pairs), so no claim that holds without the assumption of normal log-ratios."
        )
    if smallest_rank_p(n) >= ALPHA:
        yield f"n = {n}: unpaired, {n} against {n} runs cannot reach p < {ALPHA:g} (smallest {smallest_rank_p(n):.2g})."
    if n < 20:
        half = float(student.ppf(1 - ALPHA / 2, n - 1)) / math.sqrt(n)
        yield (
            f"n = {n}: the 95 % interval is ±{half:.2f} standard deviations over seeds; a difference is found with "
            f"{100 * POWER:.0f} % power only from {detectable(n):.2f} of them."
        )
