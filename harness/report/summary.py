"""The headline: what every arm gains over `barrier`, where its time goes, and its quality, from records only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from harness.measure.breakdown import Breakdown, Comparison, compare, limit, mean_breakdown
from harness.measure.statistics import NoiseFloor, noise_floor, typical_time
from harness.report.caption import caption
from harness.report.gates import Outcome, Pair, failures, judge
from harness.report.reduction import EXACT_REFERENCE, sums_depend_on_layout
from harness.report.rival import Rival, rival_in
from harness.report.windows import NOT_READ, Beside, Late
from harness.store.record import Reading, Record
from harness.store.schema import Measurement, Result
from odin.arms import AUDIT_LIMIT, Order
from odin.arms import arm as arm_named
from odin.errors import InputError

BASELINE = "barrier"
# Mirrored, so that a linear drift of the machine cancels in the mean of an arm's two runs.
_HALF = (BASELINE, EXACT_REFERENCE, "quality", "predicted")
SEQUENCE = (*_HALF, *reversed(_HALF))


class Numbers(Record):
    """What a pair that passed its gates shows. Times in s per step.

    speedup:  baseline time ÷ arm time, each as `typical_time` of its repeats
    over_rival: time of the other synchronized baseline ÷ arm time, see `Headline.rival`
    repeats:  baseline time ÷ the time of every single run, the dots of the figure
    seconds:  typical step time; images_per_second: global batch ÷ that
    parts:    mean over repeats
    delta:    final PSNR − the baseline's, dB
    opened:   windows that opened ÷ windows
    waited, delayed, written, raw, waw, war: see `harness.store.schema.Windows`
    late:     rows that were read late, where the arm's histograms are on
    audit_error: largest relative error of an audited step; audits: how many there were, how many failed
    worst_kind, kind_error: the kind of parameter whose own error in an audited step is largest, and that error
    pixel:    largest change of a pixel's channel that an audit saw, 0…1
    audit_seconds: what audits took, s per step
    jittered: baseline time ÷ the arm's in each re-timing with phases that vary (`harness.jitter`); () without any
    exact:    final state equal to that of waiting with the same views in the same order: "yes", "no", "baseline",
              "reference", "native sums" (not compared), or why not judged
    """

    speedup: float
    over_rival: Reading
    repeats: tuple[float, ...]
    how: str
    noise: Reading
    seconds: float
    images_per_second: float
    parts: Breakdown
    against: Comparison
    psnr_initial: Reading
    psnr_final: Reading
    delta: Reading
    ssim: Reading
    lpips: Reading
    opened: Reading
    waited: Reading
    delayed: Reading
    written: Reading
    raw: Reading
    waw: Reading
    war: Reading
    late: Late
    audit_error: Reading
    audits: str
    worst_kind: str
    kind_error: Reading
    pixel: Reading
    audit_seconds: Reading
    jittered: tuple[float, ...]
    exact: str


class Row(Record):
    """One arm. numbers: None when a gate failed; label: evidence label of every number in the row."""

    arm: str
    label: str
    outcomes: tuple[Outcome, ...]
    numbers: Numbers | None

    @property
    def failure(self) -> str:
        """The gates that failed and why, or the empty string."""
        return failures(self.outcomes)


class Headline(Record):
    """Everything that the table and the figure print; they compute nothing.

    rows:       every arm against `barrier`
    same_order: arms in the plan's order of views against `barrier-planned`, which has the same order; no difference of
                quality between orders touches these ratios. Empty where there is nothing to compare.
    rival:      the other synchronized baseline, where it is in the sequence; where it leads, its ratio is the headline
    limit:      speedup at which nothing would be lost
    """

    rows: tuple[Row, ...]
    same_order: tuple[Row, ...]
    noise: NoiseFloor
    rival: Rival | None
    limit: Reading
    caption: str


def headline(
    results: Sequence[Result],
    sequence: Sequence[str] = SEQUENCE,
    differences: Mapping[str, str] = MappingProxyType({}),
    files: Mapping[str, Beside] = MappingProxyType({}),
) -> Headline:
    """The headline of one sequence of cells.

    sequence:    the arms in the order they were to run
    differences: `model_differences` of the results; they stand in the caption
    files:       `beside` of the results: what is read from other files than records

    A cell without a record, a failed cell or a broken gate makes FAILED rows. Raises InputError on a record of
    an arm that is not in the sequence, or a sequence without `barrier`.
    """
    arms = list(dict.fromkeys(sequence))
    strangers = sorted({r.cell.arm for r in results} - set(arms))
    if strangers or BASELINE not in arms:
        raise InputError(f"A headline of {', '.join(arms)} needs {BASELINE} and has no place for {strangers}.")
    runs = {arm: tuple(sorted((r for r in results if r.cell.arm == arm), key=_order)) for arm in arms}
    pairs = {arm: _pair(arm, BASELINE, runs, sequence) for arm in arms}
    planned = {arm: _pair(arm, EXACT_REFERENCE, runs, sequence) for arm in _in_plan_order(arms)}
    verdicts = {arm: judge(pair) for arm, pair in pairs.items()}
    planned_verdicts = {arm: judge(pair) for arm, pair in planned.items()}
    sound = [
        arm for arm in arms if not failures(verdicts[arm]) or not failures(planned_verdicts.get(arm, verdicts[arm]))
    ]
    noise = noise_floor({arm: _times(runs[arm]) for arm in sound})
    name = rival_in(arms)
    over = {arm: _over(_pair(arm, name, runs, sequence)) for arm in arms} if name else {}
    more = {arm: _more(over.get(arm), files.get(arm, NOT_READ)) for arm in arms}
    rows = tuple(_row(arm, pair, verdicts[arm], noise, more[arm]) for arm, pair in pairs.items())
    rival = Rival(arm=name, baseline=BASELINE, speedup=_over(pairs[name]), floor=noise.overall) if name else None
    base = next((row.numbers for row in rows if row.arm == BASELINE), None)
    best = limit(base.parts) if base else Reading.absent(f"n/a: {BASELINE} failed")
    return Headline(
        rows=rows,
        same_order=tuple(_row(arm, pair, planned_verdicts[arm], noise, more[arm]) for arm, pair in planned.items()),
        noise=noise,
        rival=rival,
        limit=best,
        caption=caption(results, sequence, noise, best, differences, rival),
    )


def _in_plan_order(arms: Sequence[str]) -> list[str]:
    """`barrier-planned` and the arms that train the same views in every step; none when there is but one."""
    same = [arm for arm in arms if arm_named(arm).order is Order.PLAN]
    return same if EXACT_REFERENCE in same and len(same) > 1 else []


def _row(arm: str, pair: Pair, outcomes: tuple[Outcome, ...], noise: NoiseFloor, more: Mapping[str, Any]) -> Row:
    numbers = None if failures(outcomes) else _numbers(arm, pair, noise, more)
    return Row(arm=arm, label=_label(pair.arm), outcomes=outcomes, numbers=numbers)


def _pair(arm: str, baseline: str, runs: dict[str, tuple[Result, ...]], sequence: Sequence[str]) -> Pair:
    return Pair(
        baseline=runs[baseline],
        arm=runs[arm],
        expected=(sequence.count(baseline), sequence.count(arm)),
        reference=tuple(_done(runs.get(arm_named(arm).reference, ()))),
    )


def _over(pair: Pair) -> Reading:
    """Time of a pair's baseline ÷ the arm's."""
    failed = failures(judge(pair))
    if failed:
        return Reading.absent(f"FAILED: {failed}")
    return Reading.of(typical_time(_times(pair.baseline)).seconds / typical_time(_times(pair.arm)).seconds)


def _more(over: Reading | None, files: Beside) -> dict[str, Any]:
    """Numbers of an arm that its pair with the baseline does not hold."""
    over = over or Reading.absent("n/a: no arm ddp")
    return {"over_rival": over, "late": files.late, "audit_seconds": files.audit}


def _label(runs: Sequence[Result]) -> str:
    return " / ".join(sorted({r.cell.label.value for r in runs})) or "n/a"


def _numbers(arm: str, pair: Pair, noise: NoiseFloor, more: Mapping[str, Any]) -> Numbers:
    own, base = _done(pair.arm), _done(pair.baseline)
    typical, reference = typical_time(_times(pair.arm)), typical_time(_times(pair.baseline))
    parts = mean_breakdown([m.breakdown for m in own])
    final = Reading.mean([m.quality_final.psnr for m in own], "no run")
    return Numbers(
        speedup=reference.seconds / typical.seconds,
        repeats=tuple(reference.seconds / seconds for seconds in _times(pair.arm)),
        how=typical.how,
        noise=noise.by_arm[arm],
        seconds=typical.seconds,
        images_per_second=own[0].global_batch / typical.seconds,
        parts=parts,
        against=compare(parts, mean_breakdown([m.breakdown for m in base])),
        psnr_initial=Reading.mean([m.quality_initial.psnr for m in own], "no run"),
        psnr_final=final,
        delta=final.minus(Reading.mean([m.quality_final.psnr for m in base], "no run")),
        ssim=Reading.mean([m.quality_final.ssim for m in own], "no run"),
        lpips=Reading.mean([m.lpips.mean for m in own], "no run"),
        **_windows(own[0]),
        **_audits(own[0]),
        **more,
        jittered=_jittered(own[0], base[0]),
        exact=_exact(arm, own, pair),
    )


def _jittered(arm: Measurement, base: Measurement) -> tuple[float, ...]:
    """Draw by draw: the same draw varies the same work alike in both cells."""
    ours, theirs = arm.jitter, base.jitter
    if ours is None or theirs is None or ours.sigma != theirs.sigma:
        return ()
    return tuple(b / a for a, b in zip(ours.step_seconds, theirs.step_seconds, strict=False))


def _windows(first: Measurement) -> dict[str, Any]:
    """What became of windows; repeats differ in timing only, so the first run speaks for all."""
    w, closed, unknown = first.windows, "no window opened", "no scopes were compared"
    return {
        "opened": Reading.ratio(w.clear + w.partial, w.total, "one step has no window"),
        "waited": _share(w.waited, closed),
        "delayed": _share(w.delayed, closed),
        "written": _share(w.written, closed),
        "raw": _share(w.raw, unknown),
        "waw": _share(w.waw, unknown),
        "war": _share(w.war, unknown),
    }


def _audits(first: Measurement) -> dict[str, Any]:
    """What audits saw, in the first run as well."""
    errors = [audit.error for audit in first.audits]
    failed = sum(error > AUDIT_LIMIT for error in errors)
    kinds = [(error, kind) for audit in first.audits for kind, error in audit.by_kind.items()]
    nothing = "nothing was audited"
    worst, kind = max(kinds, default=(None, f"n/a: {nothing}"))
    return {
        "audit_error": _share(max(errors, default=None), nothing),
        "audits": f"{len(errors)}, {failed} failed" if errors else "none",
        "worst_kind": kind,
        "kind_error": _share(worst, nothing),
        "pixel": _share(max((audit.pixel for audit in first.audits), default=None), nothing),
    }


def _share(value: float | None, reason: str) -> Reading:
    return Reading.absent(f"n/a: {reason}") if value is None else Reading.of(value)


def _exact(arm: str, own: Sequence[Measurement], pair: Pair) -> str:
    wanted = {m.final_digest for m in pair.reference}
    if arm == BASELINE:
        return "baseline"
    if arm != EXACT_REFERENCE and sums_depend_on_layout(pair.cells()):
        return "native sums"
    if len(wanted) != 1:
        return f"n/a: {arm_named(arm).reference or 'a waiting arm'} is missing or differs between its runs"
    if arm == EXACT_REFERENCE:
        return "reference"
    return "yes" if {m.final_digest for m in own} == wanted else "no"


def _order(result: Result) -> int:
    return result.cell.repeat


def _done(results: Sequence[Result]) -> list[Measurement]:
    return [r.measurement for r in results if r.measurement is not None]


def _times(results: Sequence[Result]) -> list[float]:
    return [m.breakdown.step for m in _done(results)]
