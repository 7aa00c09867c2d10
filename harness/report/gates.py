"""Conditions under which two arms may be compared, as data. A pair that breaks one prints FAILED, not a number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.report.reduction import reduction_of, sums_depend_on_layout
from harness.store.record import Record
from harness.store.schema import Cell, Label, Measurement, Result
from odin.arms import arm as arm_named

# Wide enough for the order of views (barrier-planned, which changes nothing else, is 0.4 dB below barrier after 150
# steps on rooms) and for densification (positions scaled by 1 + 1e-6 moved the barrier's PSNR by 0.2 dB, D§9);
# narrow enough that an arm that trains something else does not pass as a speedup.
QUALITY_BAND_DB = 1.0
OVERRUN_LIMIT = 0.01
# Where densification has run, primitive counts and so the bytes of later steps differ between orders of views; the
# first step must still be equal to the byte. Owners of shards send the rows that views draw: their bytes are compared
# between arms of one order only, and not to the byte, because `quality` also sends rows that views may draw.
PAYLOAD_DRIFT = 0.2


@dataclass(frozen=True, kw_only=True)
class Pair:
    """An arm beside the baseline. For the baseline itself both are the same tuple.

    expected:  runs per arm (baseline, arm) in the sequence
    reference: finished runs of `barrier-planned`, to which exact arms are bit-identical
    """

    baseline: tuple[Result, ...]
    arm: tuple[Result, ...]
    expected: tuple[int, int]
    reference: tuple[Measurement, ...]

    def cells(self) -> list[Result]:
        """All runs, those of the baseline first."""
        return list(self.baseline) if self.arm is self.baseline else [*self.baseline, *self.arm]

    def measurements(self) -> list[Measurement]:
        """Of the runs that finished."""
        return [r.measurement for r in self.cells() if r.measurement is not None]


class Outcome(Record):
    """What one gate says of one pair. detail: the values compared, or why it was not judged."""

    gate: str
    passed: bool
    detail: str


@dataclass(frozen=True, kw_only=True)
class Gate:
    """A named condition. `check` yields one sentence per violation; `says` is printed when there is none."""

    name: str
    says: str
    check: Callable[[Pair], Iterator[str]]

    def judge(self, pair: Pair) -> Outcome:
        """The gate's outcome for a pair."""
        violations = list(self.check(pair))
        return Outcome(gate=self.name, passed=not violations, detail="; ".join(violations) or self.says)


def judge(pair: Pair) -> tuple[Outcome, ...]:
    """Outcomes of all gates; only those that need no measurement when a run is missing or failed."""
    first = tuple(gate.judge(pair) for gate in RECORD_GATES)
    if not all(outcome.passed for outcome in first):
        return first
    return first + tuple(gate.judge(pair) for gate in MEASUREMENT_GATES)


def failures(outcomes: Sequence[Outcome]) -> str:
    """The reasons for a FAILED row, or the empty string."""
    return "; ".join(f"{o.gate}: {o.detail}" for o in outcomes if not o.passed)


def _complete(pair: Pair) -> Iterator[str]:
    both = (("baseline", pair.baseline, pair.expected[0]), ("arm", pair.arm, pair.expected[1]))
    for what, results, expected in both:
        for result in results:
            if result.measurement is None:
                yield f"{result.cell.arm} run {result.cell.repeat} {result.status.value}: {result.reason}"
        if len(results) != expected:
            yield f"{len(results)} of {expected} runs of the {what} are recorded"
        if pair.arm is pair.baseline:
            return


def _distinct(pair: Pair) -> Iterator[str]:
    ids = [f"cell {r.cell_id}" for r in pair.cells()]
    runs = [f"{r.cell.arm} run {r.cell.repeat}" for r in pair.cells()]
    for names in (ids, runs):
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            yield f"counted twice: {', '.join(twice)}"


def _setting(pair: Pair) -> Iterator[str]:
    for name, of in _SETTINGS.items():
        values = {str(of(result)) for result in pair.cells()}
        if len(values) > 1:
            yield f"{name} differs: {' / '.join(sorted(values))}"


def _images(pair: Pair) -> Iterator[str]:
    counts = sorted({m.images for m in pair.measurements()})
    if len(counts) > 1:
        yield f"cells trained {' / '.join(map(str, counts))} images"


def _payload(pair: Pair) -> Iterator[str]:
    runs = [m.payload_bytes_per_step for m in pair.measurements()]
    if len(set(runs)) == 1:
        return
    fixed = all(m.primitives.initial == m.primitives.final for m in pair.measurements())
    sums = [sum(run) for run in runs]
    drift = max(sums) / min(sums) - 1 if min(sums) else float("inf")
    sharded = all(m.exchange is not None for m in pair.measurements())
    if sharded and len({m.plan_digest for m in pair.measurements()}) > 1:
        return
    unequal = not sharded and (fixed or len({run[0] for run in runs}) > 1)
    if unequal or drift > PAYLOAD_DRIFT:
        yield f"cells exchanged {min(sums)} to {max(sums)} bytes"


def _quality(pair: Pair) -> Iterator[str]:
    arm = [m.quality_final.psnr.value for r in pair.arm if (m := r.measurement)]
    base = [m.quality_final.psnr.value for r in pair.baseline if (m := r.measurement)]
    known_arm, known_base = [v for v in arm if v is not None], [v for v in base if v is not None]
    if not known_arm or not known_base:  # no test views: nothing to judge, and the table says so
        return
    delta = sum(known_arm) / len(known_arm) - sum(known_base) / len(known_base)
    if abs(delta) > QUALITY_BAND_DB:
        yield f"test PSNR differs from the baseline by {delta:+.2f} dB, more than ±{QUALITY_BAND_DB} dB"


def _overrun(pair: Pair) -> Iterator[str]:
    for result in pair.cells():
        share = result.measurement.overrun_share if result.measurement else 0.0
        if share > OVERRUN_LIMIT:
            yield f"{result.cell.arm} run {result.cell.repeat} overran its padding in {100 * share:.1f} % of steps"


def _device(result: Result) -> object:
    engine = result.cell.config.get("engine")
    return engine.get("device") if isinstance(engine, Mapping) else None


def _one_run(pair: Pair) -> Iterator[str]:
    """A refresh that was cut off leaves cells of two runs, whose times do not belong together."""
    timed = [r for r in pair.cells() if r.measurement and r.cell.label is not Label.VIRTUAL]
    ordered = sorted(timed, key=lambda r: _place(r.cell))
    for before, after in pairwise(ordered):
        if after.provenance.started < before.provenance.started:
            yield (
                f"{after.cell.arm} run {after.cell.repeat} was recorded before {before.cell.arm} run "
                f"{before.cell.repeat}, which goes first in a sequence: they are of two runs; run the pair again with "
                "--refresh"
            )


def _place(cell: Cell) -> int:
    """Where in its sequence a cell runs."""
    return [k for k, arm in enumerate(cell.sequence) if arm == cell.arm][cell.repeat]


def _identity(pair: Pair) -> Iterator[str]:
    arm = arm_named(pair.arm[0].cell.arm)
    on_gpu = any(_device(r) == "cuda" for r in pair.cells())
    if not arm.exact or on_gpu:  # atomics of a GPU change the last bits: not judged
        return
    if sums_depend_on_layout(pair.cells()):  # nor where the arms' segments are summed in different orders
        return
    wanted = {m.final_digest for m in pair.reference}
    found = {r.measurement.final_digest for r in pair.arm if r.measurement}
    if wanted and len(wanted | found) > 1:
        yield f"{arm.name} is an exact arm, but its final state differs from {arm.reference}'s"


_SETTINGS: dict[str, Callable[[Result], object]] = {
    "label": lambda r: r.cell.label.value,
    "scene": lambda r: (r.cell.scene, r.cell.manifest),
    "seed": lambda r: r.cell.seeds.run,
    "ranks": lambda r: r.measurement and r.measurement.ranks,
    "reduction": reduction_of,
    "global batch": lambda r: r.measurement and r.measurement.global_batch,
    "profile": lambda r: r.measurement and r.measurement.profile,
    "link": lambda r: r.measurement and r.measurement.link,
    "padding scale": lambda r: r.measurement and r.measurement.padding_scale,
    "initial primitives": lambda r: r.measurement and r.measurement.primitives.initial,
    "code version": lambda r: r.provenance.code_version,
    "fork": lambda r: r.provenance.fork_pin,
    "machine": lambda r: (r.provenance.hostname, r.provenance.cpu, r.provenance.gpu),
}

RECORD_GATES: tuple[Gate, ...] = (
    Gate(name="complete", says="all cells are done", check=_complete),
    Gate(name="distinct cells", says="every cell is counted once", check=_distinct),
)
MEASUREMENT_GATES: tuple[Gate, ...] = (
    Gate(name="one setting", says=f"equal {', '.join(_SETTINGS)}", check=_setting),
    Gate(name="one run", says="timed cells were recorded in the order of their sequence", check=_one_run),
    Gate(name="equal images", says="all cells trained as many images", check=_images),
    Gate(name="equal payload", says="all cells exchanged as many bytes", check=_payload),
    Gate(name="quality band", says=f"within ±{QUALITY_BAND_DB} dB, or no test views", check=_quality),
    Gate(name="overrun", says=f"at most {100 * OVERRUN_LIMIT:.0f} % of steps late", check=_overrun),
    Gate(name="bit-identity", says="equal to barrier-planned, or not to be compared bit for bit", check=_identity),
)
