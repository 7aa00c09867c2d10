"""Differences of quality between an arm and another, by default `barrier`, on the same seed: Fig. 15, 18, Review 2."""

from __future__ import annotations

from collections.abc import Iterator

from harness.store.schema import Measurement
from paper_figs.cells import Pair

METRICS = ("psnr", "ssim", "lpips")
BASELINE = "barrier"


def deltas(pair: Pair, arm: str, baseline: str = BASELINE) -> Iterator[tuple[str, float]]:
    """Metric and (arm − baseline) ÷ baseline, of those that both have."""
    own, base = pair.run(arm), pair.run(baseline)
    if own is None or base is None:
        return
    for metric in METRICS:
        ours, theirs = _value(own, metric), _value(base, metric)
        if ours is not None and theirs:
            yield metric, ours / theirs - 1.0


def decibels(pair: Pair, arm: str, baseline: str = BASELINE) -> float | None:
    """PSNR of an arm − that of the baseline, dB."""
    ours, theirs = psnr(pair, arm), psnr(pair, baseline)
    return None if ours is None or theirs is None else ours - theirs


def psnr(pair: Pair, arm: str) -> float | None:
    """Mean PSNR of an arm over the test views, dB; None where it has not run or there are no test views."""
    run = pair.run(arm)
    return None if run is None else run.quality_final.psnr.value


def _value(run: Measurement, metric: str) -> float | None:
    if metric == "lpips":
        return run.lpips.mean.value
    return getattr(run.quality_final, metric).value
