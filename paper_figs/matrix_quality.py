"""What the matrix costs in quality, as a whole: the headline's rows on PSNR, audits and bits."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from harness.report.gates import QUALITY_BAND_DB
from harness.report.reduction import EXACT_REFERENCE, sums_depend_on_layout
from harness.report.summary import BASELINE
from harness.store.schema import Measurement, Result
from odin.arms import AUDIT_LIMIT
from odin.arms import arm as arm_named
from paper_figs.cells import Cells, Pair, source
from paper_figs.matrix import ARMS, Value, against, of_hideable, over_places
from paper_figs.quality import decibels
from paper_figs.tidy import Rows

EXACT = tuple(name for name in ARMS if arm_named(name).exact)
AUDITED = tuple(name for name in ARMS if arm_named(name).audit)


def add_quality(found: Rows, matrix: Sequence[Pair]) -> None:
    """mean_psnr_delta against barrier, and in_quality_band, the share of cells inside the gate's band; of arms that are
    not exact also mean_psnr_delta_same_order."""
    own = source(matrix, unit="dB")
    for arm in (EXACT_REFERENCE, *ARMS):
        deltas = over_places(matrix, _delta(arm, BASELINE))
        found.add_mean("mean_psnr_delta", deltas, arm=arm, **own)
        if deltas:
            inside = fmean(abs(one) <= QUALITY_BAND_DB for one in deltas)
            found.add("in_quality_band", inside, n=len(deltas), arm=arm, **own | {"unit": "share"})
        if not arm_named(arm).exact:
            apart = over_places(matrix, _delta(arm, arm_named(arm).reference))
            found.add_mean("mean_psnr_delta_same_order", apart, arm=arm, **own)


def add_audits(found: Rows, matrix: Sequence[Pair]) -> None:
    """failed_audits: runs that failed one (n: runs that had any), per pipeline and arm, and per arm; and
    hidden_transfer_of_hideable_passed, of the runs that failed none."""
    for arm in AUDITED:
        runs = [(pair, run) for pair in matrix if (run := pair.run(arm)) is not None and run.audits]
        for pipeline in ("", *dict.fromkeys(pair.pipeline for pair, _ in runs)):
            own = [(pair, run) for pair, run in runs if pipeline in ("", pair.pipeline)]
            if own:
                found.add("failed_audits", sum(_failed(run) for _, run in own), n=len(own), unit="runs", arm=arm,
                          pipeline=pipeline, **source([pair for pair, _ in own]))  # fmt: skip
        passed = [pair for pair, run in runs if not _failed(run)]
        hidden = over_places(passed, against(arm, BASELINE, of_hideable))
        found.add_mean("hidden_transfer_of_hideable_passed", hidden, arm=arm, unit="share", **source(passed))


def add_bits(found: Rows, cells: Cells) -> None:
    """same_bits: share of cells, of all studies, that end in the bits of waiting in the same order. bits_trained_apart:
    in how many of them both arms were trained; the virtual engine times most of them from the training of the other."""
    for arm in EXACT:
        compared = [(pair, *both) for pair in cells.every_pair() if (both := _comparable(pair, arm)) is not None]
        if compared:
            own = source([pair for pair, _, _ in compared], arm=arm, n=len(compared))
            found.add("same_bits", fmean(_digest(a) == _digest(b) for _, a, b in compared), unit="share", **own)
            apart = sum(_trained(a) != _trained(b) for _, a, b in compared)
            found.add("bits_trained_apart", apart, unit="cells", **own)


def _delta(arm: str, baseline: str) -> Value:
    return lambda pair: decibels(pair, arm, baseline)


def _failed(run: Measurement) -> bool:
    return any(audit.error > AUDIT_LIMIT for audit in run.audits)


def _comparable(pair: Pair, arm: str) -> tuple[Result, Result] | None:
    """First runs of an arm and of waiting in its order, where bits may be compared (as `harness.report.gates` does)."""
    one, other = pair.result(arm), pair.result(arm_named(arm).reference)
    if one is None or other is None or pair.setting("engine", "device") == "cuda":
        return None
    return None if sums_depend_on_layout([one, other]) else (one, other)


def _digest(result: Result) -> str:
    return result.measurement.final_digest if result.measurement else ""


def _trained(result: Result) -> str:
    """The cell whose training a record's bits are of."""
    own = result.measurement.retimed_from if result.measurement else None
    return own or result.cell_id
