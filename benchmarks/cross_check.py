"""Does the virtual engine's clock agree with real processes? (D§7)

    python -m benchmarks.cross_check runs                           # a folder of records of padded cells
    python -m benchmarks.cross_check runs-229 runs-295 runs-323 --steps 100
    python -m benchmarks.cross_check runs-295 --link exposed-229 --arms barrier,barrier-planned,quality

For each arm of each sequence of padded or shaped cells of real processes, the virtual engine trains the same cell once
more, with the durations that every rank's phases had in the record; when collectives are joined, start and arrive comes
out of its own runtime and link. Printed are the median over steps of the relative error of the step time, the error of
the sum, and beside them the same for the model alone (phases priced by the profile), which is what a study on the
virtual engine predicts. The exit code is 1 where the replayed median is above 5 %.

Padded durations are nominal, so they check program and link. Shaped ones (padded=false) are what the machine took, with
the Python between phases; on CPU cores that ranks share with anything else, that measures the operating system.

With --link the recorded durations are replayed on another link, solved for its exposed share from the record's own
nominal compute and the initial model, as a run on it would (`virtual (replayed)`). SAS cuts segments for that link;
what is trained, and so every phase and its work, does not depend on it. Errors would say nothing there, so each arm's
step stands beside that of the replayed `barrier`, with the limit and the model as in `benchmarks.waiting_rules`. A pair
whose records break a gate of the headline (in `barrier`'s or its own order of views) prints FAILED.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.replaying import RecordedCell, replay, solved_link, step_times_of
from benchmarks.waiting_model import model_beside
from benchmarks.waiting_rules import NONE, Against, Line, csv_text, heading, table
from harness.config.schema import Link
from harness.measure.breakdown import Breakdown, compare, limit
from harness.measure.timeline import read_steps, step_seconds
from harness.report.headline import sequences
from harness.report.reduction import EXACT_REFERENCE
from harness.report.summary import BASELINE, Headline, Row, headline
from harness.report.table import failed_lines
from harness.store.files import write_text
from harness.store.record import Reading
from harness.store.schema import Label, Measurement, Result
from harness.store.store import STEPS, CellStore
from odin.errors import InputError, OdinError

ARMS = ("barrier", "quality", "predicted")
EMULATED = (Label.PADDED, Label.SHAPED)
TOLERANCE = 0.05
REPLAYED = "virtual (replayed)"


@dataclass(frozen=True, kw_only=True)
class Check:
    """One cell: relative errors of step times, replayed and modelled. median: over steps of its size; total: of the
    sum, with its sign."""

    scene: str
    link: str
    arm: str
    label: str
    recorded_ms: float
    replayed_ms: float
    median: float
    total: float
    modelled_ms: float
    modelled_median: float
    modelled_total: float

    @property
    def passed(self) -> bool:
        """The clock agrees."""
        return self.median <= TOLERANCE


def check(store: CellStore, result: Result, steps: int, scene: str | None) -> Check:
    """Train one recorded cell on the virtual engine, on both clocks. Raises InputError where it cannot be."""
    cell = RecordedCell.of(store, result, steps, scene)
    recorded = np.array(step_seconds(read_steps(cell.folder / STEPS)))[: cell.steps]
    replayed = step_times_of(cell.train(cell.keepers()))
    modelled = step_times_of(cell.train(None))
    return _compare(result, cell.measurement, recorded, replayed[: cell.steps], modelled[: cell.steps])


def _compare(
    result: Result,
    m: Measurement,
    recorded: NDArray[np.float64],
    replayed: NDArray[np.float64],
    modelled: NDArray[np.float64],
) -> Check:
    def median(times: NDArray[np.float64]) -> float:
        return float(np.median(np.abs(times / recorded - 1)))

    assert m.link is not None
    return Check(
        scene=result.cell.scene,
        link=m.link.name,
        arm=result.cell.arm,
        label=result.cell.label.value,
        recorded_ms=1e3 * float(recorded.mean()),
        replayed_ms=1e3 * float(replayed.mean()),
        median=median(replayed),
        total=float(replayed.sum() / recorded.sum() - 1),
        modelled_ms=1e3 * float(modelled.mean()),
        modelled_median=median(modelled),
        modelled_total=float(modelled.sum() / recorded.sum() - 1),
    )


def elsewhere(
    store: CellStore, name: str, results: Sequence[Result], link: Link, given: argparse.Namespace
) -> list[Line]:
    """Replay the first run of every arm of one sequence of cells on another link and print the table: one line per arm.

    name, results: of the sequence; given: arms, steps and scene asked for. Raises InputError without `barrier`.
    """
    runs = {r.cell.arm: r for r in results if _asked(r, given.arms)}
    if not runs:
        return []
    if BASELINE not in runs:
        raise InputError(f"{name}: shares and ratios are against {BASELINE}, and no run of it is to be replayed.")
    sequence = results[0].cell.sequence
    parts: dict[str, Breakdown] = {}
    for arm in [arm for arm in dict.fromkeys(sequence) if arm in runs]:
        print(f"{name}: {arm} on {link.name}", file=sys.stderr, flush=True)
        parts[arm] = replay(store, runs[arm], given.steps, given.scene, link)
    summary = headline(results, sequence)
    found = [_replayed_line(name, runs[arm], link, parts, summary) for arm in parts]
    recorded = runs[BASELINE].cell.label.value
    print(f"{REPLAYED} on {link.name}, {found[0].steps} steps; recorded ({recorded}): {heading(results, summary)}")
    print("\n".join([table(found), *failed_lines(summary), ""]), flush=True)
    return found


def _replayed_line(name: str, result: Result, link: Link, parts: Mapping[str, Breakdown], summary: Headline) -> Line:
    m, arm, base = result.measurement, result.cell.arm, parts[BASELINE]
    assert m is not None
    rows = [{row.arm: row for row in found}.get(arm) for found in (summary.rows, summary.same_order)]
    none = Reading.absent(f"{NONE}: not looked at in a replay")
    return Line(
        sequence=name,
        scene=result.cell.scene,
        link=link.name,
        arm=arm,
        label=REPLAYED,
        batch=m.global_batch,
        steps=parts[arm].steps,
        seconds=Reading.of(parts[arm].step),
        exposed=compare(base, base).exposed,
        limit=limit(base),
        barrier=_against(parts[arm], base, rows[0]),
        planned=_against(parts[arm], parts.get(EXACT_REFERENCE), rows[1]),
        model=model_beside(result, arm),
        audits=NONE,
        audit_error=none,
        delta=none,
    )


def _against(own: Breakdown, base: Breakdown | None, row: Row | None) -> Against:
    """row: of the pair's records, for its gates."""
    if base is None or row is None:
        return Against.of(None)
    if row.numbers is None:
        return Against.of(row)
    found, speedup = compare(own, base), Reading.of(base.step / own.step)
    return Against(speedup=speedup, hidden=found.hidden, hidden_transfer=found.hidden_transfer)


def _asked(result: Result, arms: Sequence[str]) -> bool:
    """The first run of an arm that was asked for, with an emulated link."""
    timed = result.cell.label in EMULATED and result.measurement is not None
    return timed and result.cell.repeat == 0 and result.cell.arm in arms


def checked(store: CellStore, given: argparse.Namespace) -> list[Check]:
    """Check the first run of every arm of a folder against its record and print each. given: arms, steps and scene
    asked for."""
    checks: list[Check] = []
    for result in store.results():
        if _asked(result, given.arms):
            checks.append(check(store, result, given.steps, given.scene))
            print(_line(checks[-1]), flush=True)
    return checks


def main(arguments: Sequence[str]) -> int:
    """Check, or replay on another link, the first padded or shaped run of every arm in every folder; print and write
    the CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--steps", type=int, default=100, help="compare or replay the first so many steps")
    parser.add_argument("--scene", help="where the capture lies now, if not where it was recorded")
    parser.add_argument("--arms", nargs="+", default=list(ARMS), help="arms, separated by commas or spaces")
    parser.add_argument("--link", help="replay on this link instead, e.g. exposed-229")
    parser.add_argument("--out", type=Path, help="the CSV, by default in runs/cross-check")
    given = parser.parse_args(arguments)
    given.arms = [arm for word in given.arms for arm in word.split(",")]
    out = given.out or Path("runs/cross-check") / f"{given.link or 'cross_check'}.csv"
    checks: list[Check] = []
    found: list[Line] = []
    try:
        link = solved_link(given.link) if given.link else None
        for folder in given.folders:
            store = CellStore(folder, create=False)
            if link is None:
                checks += checked(store, given)
                continue
            for name, results in sequences(store.results()).items():
                found += elsewhere(store, name, results, link, given)
        if not checks and not found:
            raise InputError("None of these folders holds a padded or shaped cell of these arms.")
        frame = pd.DataFrame([asdict(one) for one in checks])
        write_text(out, csv_text(found) if found else frame.to_csv(index=False))
    except OdinError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return int(not all(one.passed for one in checks))


def _line(c: Check) -> str:
    verdict = "agrees" if c.passed else f"ABOVE {100 * TOLERANCE:.0f} %"
    return (
        f"{c.scene} {c.link} {c.arm}: recorded {c.recorded_ms:.1f} ms/step ({c.label}); replayed {c.replayed_ms:.1f} "
        f"(virtual), median error {100 * c.median:.2f} %, of the sum {100 * c.total:+.2f} %: {verdict}; modelled "
        f"{c.modelled_ms:.1f}, median {100 * c.modelled_median:.2f} %, of the sum {100 * c.modelled_total:+.2f} %"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
