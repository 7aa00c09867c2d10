"""Findings in words: how an effect is said, and below which size it is called none."""

from __future__ import annotations

from collections.abc import Sequence

NO_EFFECT = 0.005  # of a speedup: the narrower margin of D§9
NO_EFFECT_DB = 0.2  # what scaling initial positions by 1 + 1e-6 moved barrier's test PSNR by (D§9)
THRESHOLDS = f"within ±{100 * NO_EFFECT:g} % of a speedup or ±{NO_EFFECT_DB:g} dB counts as no effect"


def percent(ratio: float) -> str:
    """What a ratio is more than 1, as "+15.6 %"; "±0.0 %" where it is less than that can show."""
    return _signed(100 * (ratio - 1), 1, " %")


def points(share: float) -> str:
    """A share as a difference, as "−3.3 %"."""
    return percent(1 + share)


def decibels(value: float) -> str:
    """A difference of PSNR, as "+0.24 dB"."""
    return _signed(value, 2, " dB")


def effect_of(ratio: float) -> str:
    """A ratio of speedups in percent, or that it is no effect."""
    return _or_none(percent(ratio), abs(ratio - 1) <= NO_EFFECT)


def quality_effect_of(value: float) -> str:
    """A difference of PSNR in dB, or that it is no effect."""
    return _or_none(decibels(value), abs(value) <= NO_EFFECT_DB)


def between(low: str, high: str) -> str:
    """Two ends that were made into text, in brackets; the empty string where they read the same."""
    return "" if low == high else f" ({low} to {high})"


def listed(texts: Sequence[str]) -> str:
    """As "a, b and c"; the empty string for none."""
    *first, last = texts or [""]
    return f"{', '.join(first)} and {last}" if first else last


def _signed(value: float, digits: int, unit: str) -> str:
    text = f"{value:+.{digits}f}".replace("-", "−")
    return f"{text if float(f'{value:.{digits}f}') else f'±{0:.{digits}f}'}{unit}"


def _or_none(text: str, none: bool) -> str:
    return f"no effect ({text})" if none else text
