"""What a study's pairs say: the speedup of every arm per place over seeds, with intervals, from records only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.measure.statistics import noise_floor, typical_time
from harness.report.gates import Pair, failures, judge
from harness.statistics.claims import cannot_claim
from harness.statistics.ratios import MARGINS, Ratios, equivalence, ratios_of
from harness.store.schema import Result
from harness.store.store import CellStore
from harness.study.repeats import Repeats, repeat_lines, repeats_of
from harness.study.states import PairState
from odin.arms import arm as arm_named

SEED = "seed"


@dataclass(frozen=True, kw_only=True)
class PairRatio:
    """One arm of one pair against its baseline.

    place:   axis=label of the pair without the seed
    label:   evidence label of the number
    speedup: baseline time ÷ arm time; None where a gate failed
    noise:   largest spread of an arm over its own repeats in the pair, as a share; None where each ran once
    psnr:    arm's final test PSNR ÷ the baseline's; None where there is none
    failure: which gate failed, or the empty string
    repeats: what the arm's repeats measured (`harness.study.repeats`)
    """

    place: str
    arm: str
    baseline: str
    seed: str
    label: str
    speedup: float | None
    noise: float | None
    psnr: float | None
    failure: str
    repeats: Repeats


@dataclass(frozen=True, kw_only=True)
class Group:
    """The pairs of one place and arm, over seeds."""

    place: str
    arm: str
    baseline: str
    label: str
    pairs: tuple[PairRatio, ...]

    @property
    def speedups(self) -> list[float]:
        """Of the pairs that passed their gates."""
        return [pair.speedup for pair in self.pairs if pair.speedup is not None]

    @property
    def noise(self) -> str:
        """The noise floor: the worst pair's, as text."""
        known = [pair.noise for pair in self.pairs if pair.speedup is not None and pair.noise is not None]
        return f"{100 * max(known):.1f} %" if known else "unknown (each arm ran once)"

    @property
    def quality(self) -> list[float]:
        """PSNR ratios of the pairs that passed their gates and have test views."""
        return [pair.psnr for pair in self.pairs if pair.psnr is not None]


def pair_ratios(states: Sequence[PairState], store: CellStore) -> list[PairRatio]:
    """Every arm of every pair whose cells are all done. Raises InputError on a record that does not validate."""
    return [ratio for state in states if state.done and not state.pair.skipped for ratio in _of(state, store)]


def grouped(ratios: Sequence[PairRatio]) -> list[Group]:
    """By place, arms and label, in the order of the study."""
    found: dict[tuple[str, str, str, str], list[PairRatio]] = {}
    for ratio in ratios:
        found.setdefault((ratio.place, ratio.baseline, ratio.arm, ratio.label), []).append(ratio)
    return [
        Group(place=place, baseline=baseline, arm=arm, label=label, pairs=tuple(pairs))
        for (place, baseline, arm, label), pairs in found.items()
    ]


def summary_lines(groups: Sequence[Group]) -> Iterator[str]:
    """A paragraph per place and arm, the worst place, and what so few pairs cannot claim."""
    best: list[tuple[float, Group]] = []
    counts = set()
    for group in groups:
        yield f"{group.place or 'all'}: {group.arm} against {group.baseline} ({group.label})"
        for pair in group.pairs:
            if pair.failure:
                yield f"  FAILED seed {pair.seed}: {pair.failure}"
        if not group.speedups:
            continue
        speedup = ratios_of(group.speedups)
        best.append((speedup.geometric, group))
        counts.add(speedup.n)
        yield (
            f"  speedup {speedup.text()}×, noise up to {group.noise}, arithmetic mean {speedup.arithmetic:.3f}×"
            f"{_bootstrap(speedup)}"
        )
        if group.quality:
            quality = ratios_of(group.quality)
            tests = "; ".join(f"±{100 * m:g} %: {equivalence(group.quality, m).verdict}" for m in MARGINS)
            yield f"  PSNR ratio {quality.text('.5f')}; {tests}"
        if len(group.quality) < len(group.speedups):
            yield f"  quality on {len(group.quality)} of {len(group.speedups)} pairs (n/a: no test views)"
        kept = [(pair.seed, pair.repeats) for pair in group.pairs if pair.speedup is not None]
        yield from (f"  {line}" for line in repeat_lines(kept))
    if best:
        worst = min(best, key=lambda entry: entry[0])
        yield f"Worst: {worst[1].place or 'all'} {worst[1].arm}, {worst[0]:.3f}× ({worst[1].label})"
    for n in sorted(counts):
        yield from (f"What this cannot claim: {line}" for line in cannot_claim(n))


def _bootstrap(ratios: Ratios) -> str:
    low, high, coverage = ratios.bca.low.value, ratios.bca.high.value, ratios.coverage.value
    if low is None or high is None or coverage is None or ratios.constant:
        return ""
    return f"; BCa [{low:.3f}, {high:.3f}], whose simulated coverage at this n is {100 * coverage:.0f} %"


def _of(state: PairState, store: CellStore) -> Iterator[PairRatio]:
    pair = state.pair
    results = [store.read_result(cell.known.record) for cell in state.cells if cell.known.record]
    runs = {arm: tuple(r for r in results if r.cell.arm == arm) for arm in (pair.baseline, *pair.others)}
    place = " ".join(f"{axis}={label}" for axis, label in pair.where.items() if axis != SEED)
    sequence = [arm for arm, _ in pair.cells]
    for arm in pair.others:
        compared = Pair(
            baseline=runs[pair.baseline],
            arm=runs[arm],
            expected=(sequence.count(pair.baseline), sequence.count(arm)),
            reference=tuple(r.measurement for r in runs.get(arm_named(arm).reference, ()) if r.measurement is not None),
        )
        failure = failures(judge(compared))
        yield PairRatio(
            place=place,
            arm=arm,
            baseline=pair.baseline,
            seed=str(pair.settings["seed"]),
            label=" / ".join(sorted({r.cell.label.value for r in compared.cells()})),
            speedup=None if failure else _time(compared.baseline) / _time(compared.arm),
            noise=noise_floor({r: _times(runs[r]) for r in (pair.baseline, arm)}).overall.value
            if not failure
            else None,
            psnr=None if failure else _psnr_ratio(compared),
            failure=failure,
            repeats=repeats_of([r.measurement for r in runs[arm] if r.measurement is not None]),
        )


def _time(results: Sequence[Result]) -> float:
    return typical_time(_times(results)).seconds


def _times(results: Sequence[Result]) -> list[float]:
    return [r.measurement.breakdown.step for r in results if r.measurement is not None]


def _psnr_ratio(pair: Pair) -> float | None:
    arm, base = _psnr(pair.arm), _psnr(pair.baseline)
    return arm / base if arm is not None and base is not None and arm > 0 and base > 0 else None


def _psnr(results: Sequence[Result]) -> float | None:
    values = [r.measurement.quality_final.psnr.value for r in results if r.measurement is not None]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
