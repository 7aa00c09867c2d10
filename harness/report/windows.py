"""What lies in files beside records and stands in a headline's window section: rows read late, and what audits took."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from harness.measure.timeline import read_timeline
from harness.measure.windows import read_delays
from harness.store.record import Reading, Record
from harness.store.schema import Result
from harness.store.store import DELAYS, TIMELINE, CellStore
from odin.arms import arm as arm_named
from odin.errors import InputError
from odin.phases import Category, Phase
from odin.publication.delays import HIGHEST

MEDIAN, HIGH = 0.5, 0.95
# Phases of useful work; what an audit computes again is recorded under their names, but as Odin's own time.
_USEFUL = frozenset(phase.value for phase in Phase if phase.category is Category.USEFUL)


class Below(Record):
    """What half of the rows, and 95 % of them, lie below: upper edges of octaves. 0: they have no gradient at all."""

    median: Reading
    high: Reading


class Late(Record):
    """Rows that were read one update late, over all windows of a cell (odin/publication/delays.py).

    rows:   a row counts once per window
    local:  norm that a rank saw ÷ active mean of the step; a row counts once per rank
    reduced: norm of the reduced gradient ÷ active mean
    update: the update that was then applied, in learning rates
    """

    rows: Reading
    local: Below
    reduced: Below
    update: Below


class Beside(Record):
    """What the files of an arm's cells say. audit: s per step, mean over ranks, steps and runs."""

    late: Late
    audit: Reading


def beside(store: CellStore, results: Sequence[Result]) -> dict[str, Beside]:
    """Of every arm that has a finished cell. A file that is missing or broken is a reason in place of a number."""
    runs: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda r: r.cell.repeat):
        if result.measurement is not None:
            runs.setdefault(result.cell.arm, []).append(result)
    return {arm: Beside(late=_late(store, arm, found[0]), audit=_audit(store, found)) for arm, found in runs.items()}


def no_late(reason: str) -> Late:
    """No numbers, and why."""
    absent = Reading.absent(f"n/a: {reason}")
    nothing = Below(median=absent, high=absent)
    return Late(rows=absent, local=nothing, reduced=nothing, update=nothing)


NOT_READ = Beside(
    late=no_late("only records were read"),
    audit=Reading.absent("n/a: only records were read"),
)


def late_rows(delays: pd.DataFrame) -> Late:
    """Of the histograms of a cell (`harness.measure.windows.DELAY_COLUMNS`)."""
    rows = int(delays.loc[delays["quantity"] == "update", "rows"].sum())
    if not rows:
        return no_late("no row was read late")
    sums = {name: group.groupby("low")["rows"].sum().sort_index() for name, group in delays.groupby("quantity")}
    return Late(
        rows=Reading.of(rows),
        local=_below(sums["local"]),
        reduced=_below(sums["reduced"]),
        update=_below(sums["update"]),
    )


def audit_seconds(timeline: pd.DataFrame, ranks: int, steps: int) -> float:
    """Seconds per step, mean over ranks and steps, in which audited steps are computed again, compared and agreed on.

    Not in it: that an audited step's gradient leaves later, and, of a shard (Grendel), waits for what is sent again.
    Both are recorded as waits like all others.
    """
    name, category = timeline["name"], timeline["category"]
    again = (category == Category.ODIN.value) & name.isin(_USEFUL)
    compared = (timeline["kind"] != "collective") & (name == Phase.AUDIT.value)
    length = timeline["end"] - timeline["start"]
    return float(length[again | compared].sum()) / (ranks * steps)


def _below(counts: pd.Series) -> Below:
    """counts: rows by lower edge of their octave, ascending."""
    reached = counts.cumsum() / counts.sum()
    return Below(**{name: _edge(reached.index[reached >= q][0]) for name, q in (("median", MEDIAN), ("high", HIGH))})


def _edge(low: float) -> Reading:
    """Upper edge of an octave; the last one also holds everything that is larger."""
    last = 2.0 ** (HIGHEST - 1)
    if low >= last:
        return Reading.absent(f"≥ {last:g}: the last octave of the histograms holds whatever is larger")
    return Reading.of(max(2.0 * low, 0.0))


def _late(store: CellStore, arm: str, first: Result) -> Late:
    """Repeats differ in timing only, so the first run speaks for all."""
    if not arm_named(arm).histograms:
        return no_late("histograms are off")
    path = store.path(first.cell_id) / DELAYS
    if not path.exists():
        return no_late(f"no {DELAYS} is recorded")
    try:
        return late_rows(read_delays(path))
    except InputError as error:
        return no_late(str(error))


def _audit(store: CellStore, runs: Sequence[Result]) -> Reading:
    return Reading.mean([_audit_of(store.path(run.cell_id) / TIMELINE, run) for run in runs], "no run")


def _audit_of(path: Path, run: Result) -> Reading:
    m = run.measurement
    if m is None or not m.audits:
        return Reading.absent("n/a: nothing was audited")
    if not path.exists():
        return Reading.absent(f"n/a: no {TIMELINE} is recorded")
    try:
        return Reading.of(audit_seconds(read_timeline(path), m.ranks, m.steps))
    except InputError as error:
        return Reading.absent(f"n/a: {error}")
