"""What each waiting rule reaches in recorded runs, beside the model of SCOPES.md §3 and the limit (D§6).

    python -m benchmarks.waiting_rules runs                         # a folder of records, or several
    python -m benchmarks.waiting_rules runs-bonsai runs-fox --csv waiting_rules.csv

For every sequence of cells one row per arm: speedup, hidden and hidden-transfer against `barrier` and against
`barrier-planned`, from the same functions and under the same gates as the headline (a pair that breaks one prints
FAILED), what audits found, and test PSNR minus that of the arm that waits in the same order of views. `modelled` is
what SCOPES.md §3 predicts at the share f that `barrier` really had exposed: with T = f / (1 − f), in units of a rank's
work in a step,

    speedup = (1 + T) / (1 + (1 − h)·T)

where h is the share of the transfer that the rule hides. The model has no skew and charges nothing for Odin's own work;
h was found on trained models at f = 29.5 % and taken for the same at other f. The exit code is 1 where a pair has
FAILED.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.waiting_model import MOST_UNITS, RULES, Modelled, model_beside
from harness.report.headline import sequences
from harness.report.reduction import EXACT_REFERENCE
from harness.report.summary import BASELINE, Headline, Numbers, Row, headline
from harness.report.table import FAILED, failed_lines
from harness.store.files import write_text
from harness.store.record import Reading
from harness.store.schema import Measurement, Result
from harness.store.store import CellStore
from odin.arms import arm as arm_named
from odin.errors import InputError, OdinError

NONE = "–"  # a table's cell with nothing to say


@dataclass(frozen=True, kw_only=True)
class Against:
    """An arm against one that waits. speedup: ratio of step times; hidden, hidden_transfer: shares, up to 1."""

    speedup: Reading
    hidden: Reading
    hidden_transfer: Reading

    @classmethod
    def of(cls, row: Row | None) -> Against:
        """Of a row of the headline; its failure, or that there is none, where it has no numbers."""
        if row is None:
            return cls.absent(f"{NONE}: not compared with {EXACT_REFERENCE}")
        if row.numbers is None:
            return cls.absent(f"{FAILED}: {row.failure}")
        n = row.numbers
        return cls(speedup=Reading.of(n.speedup), hidden=n.against.hidden, hidden_transfer=n.against.hidden_transfer)

    @classmethod
    def absent(cls, reason: str) -> Against:
        """No number, and why."""
        none = Reading.absent(reason)
        return cls(speedup=none, hidden=none, hidden_transfer=none)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One arm of one sequence of cells.

    seconds:    step time, s; batch: B, views per step of all ranks; steps: how many were timed
    exposed:    transfer that `barrier` waits for ÷ its step; limit: speedup at which it would lose nothing
    planned:    against `barrier-planned`; absent in another order of views
    model:      of SCOPES.md §3, None where it has none
    audits:     how many and how many failed; audit_error: the largest relative error
    delta:      test PSNR minus that of the arm that waits in the same order, dB
    """

    sequence: str
    scene: str
    link: str
    arm: str
    label: str
    batch: int
    steps: int
    seconds: Reading
    exposed: Reading
    limit: Reading
    barrier: Against
    planned: Against
    model: Modelled | None
    audits: str
    audit_error: Reading
    delta: Reading

    @property
    def modelled(self) -> Reading:
        """Speedup of the model at `exposed`."""
        return Reading.absent(f"{NONE}: no model") if self.model is None else self.model.speedup(self.exposed)

    @property
    def modelled_hidden(self) -> Reading:
        """h of the model, 0…1."""
        return Reading.absent(f"{NONE}: no model") if self.model is None else Reading.of(self.model.hidden)


@dataclass(frozen=True, kw_only=True)
class _Column:
    """One column. key: in the CSV, which has bare numbers; title: in the table, "" for the CSV alone."""

    key: str
    title: str
    of: Callable[[Line], Reading | str | int]
    form: str = ".3f"
    scale: float = 1.0
    unit: str = ""

    def shown(self, line: Line) -> str:
        """In the table."""
        value = self.of(line)
        text = value.text(self.form, self.scale, self.unit) if isinstance(value, Reading) else str(value)
        return text.split(":")[0] if isinstance(value, Reading) else text

    def bare(self, line: Line) -> str:
        """In the CSV; an absent number is its reason."""
        value = self.of(line)
        return value.text(".12g") if isinstance(value, Reading) else str(value)


def _share(key: str, title: str, of: Callable[[Line], Reading]) -> _Column:
    return _Column(key=key, title=title, of=of, form="z.1f", scale=100.0, unit=" %")


def _ratio(key: str, title: str, of: Callable[[Line], Reading]) -> _Column:
    return _Column(key=key, title=title, of=of, unit="×")


COLUMNS = (
    _Column(key="sequence", title="", of=lambda x: x.sequence),
    _Column(key="scene", title="", of=lambda x: x.scene),
    _Column(key="link", title="", of=lambda x: x.link),
    _Column(key="arm", title="arm", of=lambda x: x.arm),
    _Column(key="label", title="label", of=lambda x: x.label),
    _Column(key="global_batch", title="", of=lambda x: x.batch),
    _Column(key="steps", title="", of=lambda x: x.steps),
    _Column(key="step_seconds", title="ms/step", of=lambda x: x.seconds, form=".1f", scale=1e3),
    _share("exposed_share", "exposed", lambda x: x.exposed),
    _ratio("limit", "limit", lambda x: x.limit),
    _ratio("speedup", "÷ barrier", lambda x: x.barrier.speedup),
    _share("hidden_share", "hidden", lambda x: x.barrier.hidden),
    _share("hidden_transfer_share", "hidden-tr.", lambda x: x.barrier.hidden_transfer),
    _ratio("speedup_planned", "÷ planned", lambda x: x.planned.speedup),
    _share("hidden_planned_share", "hidden", lambda x: x.planned.hidden),
    _share("hidden_transfer_planned_share", "hidden-tr.", lambda x: x.planned.hidden_transfer),
    _ratio("modelled_speedup", "modelled", lambda x: x.modelled),
    _share("modelled_hidden_share", "h", lambda x: x.modelled_hidden),
    _Column(key="model", title="model", of=lambda x: x.model.name if x.model else NONE),
    _Column(key="audits", title="audits", of=lambda x: x.audits),
    _share("audit_error_share", "largest", lambda x: x.audit_error),
    _Column(key="psnr_delta_db", title="Δ dB", of=lambda x: x.delta, form="+z.3f"),
)


def lines(sequence: str, results: Sequence[Result], summary: Headline) -> list[Line]:
    """One line per arm. sequence: name of the cells; summary: their headline. Raises InputError without a finished
    cell."""
    first, m = finished(results)
    same = {row.arm: row for row in summary.same_order}
    base = next(row for row in summary.rows if row.arm == BASELINE)
    exposed = base.numbers.against.exposed if base.numbers else Reading.absent(f"{FAILED}: {base.failure}")
    return [
        Line(
            sequence=sequence,
            scene=first.cell.scene,
            link=m.link.name if m.link else "none",
            arm=row.arm,
            label=row.label,
            batch=m.global_batch,
            steps=m.steps,
            exposed=exposed,
            limit=summary.limit,
            barrier=Against.of(row),
            planned=Against.of(same.get(row.arm)),
            model=model_beside(first, row.arm),
            delta=_delta(row, same.get(row.arm)),
            **_own(row.numbers or (same[row.arm].numbers if row.arm in same else None)),
        )
        for row in summary.rows
    ]


def finished(results: Sequence[Result]) -> tuple[Result, Measurement]:
    """The first finished cell. Raises InputError where none is."""
    for result in results:
        if result.measurement is not None:
            return result, result.measurement
    raise InputError("None of these cells has finished.")


def _own(numbers: Numbers | None) -> dict[str, Any]:
    """What does not depend on the arm that is compared with."""
    if numbers is None:
        return {"seconds": Reading.absent(FAILED), "audits": NONE, "audit_error": Reading.absent(NONE)}
    if numbers.audit_error.value is None:
        none = Reading.absent(f"{NONE}: nothing was audited")
        return {"seconds": Reading.of(numbers.seconds), "audits": NONE, "audit_error": none}
    return {
        "seconds": Reading.of(numbers.seconds),
        "audits": numbers.audits,
        "audit_error": numbers.audit_error,
    }


def _delta(row: Row, same: Row | None) -> Reading:
    """Test PSNR minus that of waiting in the same order, dB."""
    reference = arm_named(row.arm).reference
    compared = {BASELINE: row, EXACT_REFERENCE: same}.get(reference)
    if reference == row.arm or compared is None:
        return Reading.absent(f"{NONE}: nothing else waits in its order")
    return compared.numbers.delta if compared.numbers else Reading.absent(f"{FAILED}: {compared.failure}")


def table(found: Sequence[Line]) -> str:
    """The lines of one sequence as aligned text, one row per arm, and what its models are."""
    columns = [column for column in COLUMNS if column.title]
    rows = [[c.title for c in columns], *([c.shown(line) for c in columns] for line in found)]
    width = [max(len(row[k]) for row in rows) for k in range(len(columns))]
    left = {"arm", "label", "model"}
    texts = [
        "  ".join(
            text.ljust(w) if c.title in left else text.rjust(w) for text, w, c in zip(row, width, columns, strict=True)
        ).rstrip()
        for row in rows
    ]
    return "\n".join([*texts, *_legend(found)])


def _legend(found: Sequence[Line]) -> Iterator[str]:
    """The rules that occur, and whether the model may be used at this exposed share."""
    used = {line.model.rule for line in found if line.model is not None}
    if not used:
        return
    yield "modelled: SCOPES.md §3 at this exposed share, h of it hidden, for the B of `model`. What a rule waits for:"
    yield from (f"  {rule}: {says}" for rule, (says, _) in RULES.items() if rule in used)
    exposed = next((line.exposed.value for line in found if line.exposed.value is not None), 0.0)
    most = MOST_UNITS / (1.0 + MOST_UNITS)
    if exposed > most:
        yield f"{100 * exposed:.1f} % exposed is more than the {100 * most:.1f} % (T = {MOST_UNITS}) that it is for."


def csv_text(found: Sequence[Line]) -> str:
    """One row per line with bare numbers (s, shares, dB)."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.key for column in COLUMNS])
    writer.writerows([column.bare(line) for column in COLUMNS] for line in found)
    return out.getvalue()


def heading(results: Sequence[Result], summary: Headline) -> str:
    """What was run, in one line. Raises InputError without a finished cell."""
    first, m = finished(results)
    cell, made = first.cell, first.provenance
    n = " or ".join(str(k) for k in sorted({cell.sequence.count(arm) for arm in cell.sequence}))
    return (
        f"{cell.scene}: {m.ranks} ranks, B = {m.global_batch}, {m.steps} steps, link "
        f"{m.link.name if m.link else 'none'}, seed {cell.seeds.run}, n = {n} runs per arm, noise "
        f"{summary.noise.overall.text('.1f', 100, ' %')}, commit {made.git_sha[:12]}{'+' if made.dirty else ''}"
    )


def main(arguments: Sequence[str]) -> int:
    """Print the table of every sequence in every folder; 1 where a pair has FAILED."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="RUNS")
    parser.add_argument("--csv", type=Path, help="also write all rows there")
    given = parser.parse_args(arguments)
    found: list[Line] = []
    code = 0
    try:
        for folder in given.folders:
            groups = sequences(CellStore(folder, create=False).results())
            if not groups:
                raise InputError(f"{folder} holds no records yet.")
            for name, results in groups.items():
                summary = headline(results, results[0].cell.sequence)
                own = lines(name, results, summary)
                print("\n".join([heading(results, summary), table(own), *failed_lines(summary), ""]), flush=True)
                found += own
                code = max(code, int(any(row.numbers is None for row in summary.rows)))
        if given.csv is not None:
            write_text(given.csv, csv_text(found))
    except OdinError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
