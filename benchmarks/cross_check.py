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
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.waiting_model import model_beside
from benchmarks.waiting_rules import NONE, Against, Line, csv_text, heading, table
from harness.config import Config, load
from harness.config.convert import build
from harness.config.keys import groups
from harness.config.schema import Link, Scene
from harness.measure.breakdown import Breakdown, breakdown, compare, limit
from harness.measure.timeline import read_steps, read_timeline, step_seconds
from harness.report.headline import sequences
from harness.report.reduction import EXACT_REFERENCE
from harness.report.summary import BASELINE, Headline, Row, headline
from harness.report.table import failed_lines
from harness.run.collect import rank_steps, rank_timeline
from harness.run.execute import Executed
from harness.run.together import train
from harness.run.warmup import Calibration, solve_link
from harness.run.workload import Workload, load_workload
from harness.store.files import write_text
from harness.store.record import Reading
from harness.store.schema import Label, Measurement, Result
from harness.store.store import STEPS, TIMELINE, CellStore
from odin.arms import Dispatch
from odin.arms import arm as arm_named
from odin.comm.transport import Arrival, Handle
from odin.errors import InputError, OdinError
from odin.keeper import NominalKeeper, Work
from odin.phases import Phase
from odin.plan import Plan

ARMS = ("barrier", "quality", "predicted")
EMULATED = (Label.PADDED, Label.SHAPED)
TOLERANCE = 0.05
AHEAD = 2
REPLAYED = "virtual (replayed)"
Recorded = deque[tuple[int, str, float]]  # step, phase, seconds


class ReplayingKeeper(NominalKeeper):
    """Every phase takes what it took in the record; what a rank was late there, it is late here too. From step
    `until` on nothing takes any time: the end of a shortened plan is not the record's."""

    def __init__(self, recorded: Recorded, until: int) -> None:
        self._recorded, self._until = recorded, until
        super().__init__(self._next)

    def _next(self, phase: str, work: Work) -> float:
        if self.step >= self._until:
            return 0.0
        step, name, seconds = self._recorded.popleft() if self._recorded else (self.step, "nothing", 0.0)
        if (step, name) != (self.step, phase):
            raise InputError(
                f"The record has {name} of step {step} where this code does {phase} of step {self.step}: it was made "
                "by another version of the runtime. Record the cell again with this one."
            )
        return seconds

    def wait(self, handle: Handle, name: str) -> Arrival:
        """See NominalKeeper."""
        arrival = super().wait(handle, name)
        self._be_late()
        return arrival

    def _close(self, phase: Phase, work: Work, start: float, end: float, cpu: float) -> None:
        # On another link the wait after which the rank was late may have nothing to wait for.
        if phase is not Phase.OVERRUN:
            self._be_late()
        super()._close(phase, work, start, end, cpu)

    def _be_late(self) -> None:
        while self.step < self._until and self._recorded and self._recorded[0][1] == Phase.OVERRUN.value:
            with self.phase(Phase.OVERRUN):
                pass


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


@dataclass(frozen=True, kw_only=True)
class RecordedCell:
    """A recorded cell with all that it takes to train its first `steps` steps once more."""

    result: Result
    measurement: Measurement
    folder: Path
    calibration: Calibration
    workload: Workload
    plan: Plan
    steps: int

    @classmethod
    def of(cls, store: CellStore, result: Result, steps: int, scene: str | None) -> RecordedCell:
        """Of a finished cell; `steps` at most. scene: where the capture lies now, if not where it was recorded. Raises
        InputError where the capture or the prices are not there."""
        m = result.measurement
        assert m is not None and m.link is not None
        calibration = _calibration(store, m)
        workload = load_workload(_virtual(result, scene))
        if workload.capture.manifest != result.cell.manifest:
            raise InputError(f"{workload.config.scene.path} is not the capture of cell {result.cell_id}.")
        steps = min(steps, m.steps)
        return cls(
            result=result,
            measurement=m,
            folder=store.path(result.cell_id),
            calibration=calibration,
            workload=workload,
            # Scopes are taken two steps ahead, so a shortened plan goes on for two steps more.
            plan=workload.plan(arm_named(result.cell.arm)).first(steps + AHEAD),
            steps=steps,
        )

    def keepers(self) -> list[ReplayingKeeper]:
        """Of all ranks, on the recorded durations."""
        timeline = read_timeline(self.folder / TIMELINE)
        gaps = self.measurement.padding_scale is None
        ranks = range(self.measurement.ranks)
        return [ReplayingKeeper(recorded_phases(timeline, rank, gaps=gaps), self.steps) for rank in ranks]

    def train(self, keepers: Sequence[NominalKeeper] | None, link: Link | None = None) -> list[Executed]:
        """Train on the keepers' durations, or on the profile's prices without them; on another link than the
        record's if one is given."""
        calibration, stretch = self.calibration, self.measurement.padding_scale or 1.0
        if link is not None:
            config = replace(self.workload.config, link=link)
            elsewhere = replace(self.workload, config=config)
            calibration = replace(calibration, link=solve_link(elsewhere, calibration.compute))
        price = calibration.profile.stretched(stretch)
        executed, _ = train(
            self.workload,
            arm_named(self.result.cell.arm),
            calibration.link.stretched(stretch),
            lambda t: NominalKeeper(price) if keepers is None else keepers[t.rank],
            plan=self.plan,
            budget=calibration.budget(self.plan.ranks),
        )
        return executed


def check(store: CellStore, result: Result, steps: int, scene: str | None) -> Check:
    """Train one recorded cell on the virtual engine, on both clocks. Raises InputError where it cannot be."""
    cell = RecordedCell.of(store, result, steps, scene)
    recorded = np.array(step_seconds(read_steps(cell.folder / STEPS)))[: cell.steps]
    replayed = _step_times(cell.train(cell.keepers()))
    modelled = _step_times(cell.train(None))
    return _compare(result, cell.measurement, recorded, replayed[: cell.steps], modelled[: cell.steps])


def replay(store: CellStore, result: Result, steps: int, scene: str | None, link: Link) -> Breakdown:
    """Where the time of a recorded cell's first steps would go on another link, s per step as padded there. Raises
    InputError where it cannot be replayed."""
    if arm_named(result.cell.arm).dispatch is Dispatch.TIME:
        raise InputError(f"{result.cell.arm} assigns units by measured times: on another link it would train others.")
    cell = RecordedCell.of(store, result, steps, scene)
    executed = cell.train(cell.keepers(), link)
    timeline = pd.concat([rank_timeline(e, r) for r, e in enumerate(executed)], ignore_index=True)
    ends = pd.concat([rank_steps(e, r) for r, e in enumerate(executed)], ignore_index=True)
    # The steps after the last one are there for its scopes only.
    return breakdown(timeline[timeline["step"] < cell.steps], ends[ends["step"] < cell.steps])


def solved_link(name: str) -> Link:
    """The named link of the config group `link`. Raises InputError where there is none, or where its bandwidth does not
    follow from a share that is exposed."""
    solved = [known for known in groups()["link"] if known.startswith("exposed-")]
    if name not in solved:
        raise InputError(f"--link={name} is not solved for an exposed share. Links that are: {', '.join(solved)}.")
    return load([f"link={name}"]).link


def _calibration(store: CellStore, m: Measurement) -> Calibration:
    """Prices and link of a recorded cell. A shaped cell is not timed by its profile and does not name it, but its link
    was solved with it: then it must be the only one of its folder. Raises InputError where it cannot be told."""
    known = sorted((store.root / "profiles").glob("*.json"))
    found = [path for path in known if path.stem == m.profile] if m.padding_scale is not None else known
    if len(found) != 1:
        raise InputError(
            f"{store.root / 'profiles'} holds {len(found)} profiles that may be this cell's; record shaped ones of one "
            "link and scene in a folder of their own (out=FOLDER)."
        )
    return Calibration.from_json(found[0].read_text(encoding="utf-8"))


def _virtual(result: Result, scene: str | None) -> Config:
    """The cell's configuration on the virtual engine."""
    keys = {k: v for k, v in result.cell.config.items() if k not in ("arm", "repeat")}
    config = build(Config, keys | {"out": "runs"})  # records do not keep where they were written
    engine = replace(config.engine, name="virtual", padded=False, reduce="ordered")
    own: Scene = config.scene if scene is None else replace(config.scene, path=scene)
    return replace(config, engine=engine, scene=own)


def recorded_phases(timeline: pd.DataFrame, rank: int, *, gaps: bool) -> Recorded:
    """Phases of a rank as they followed each other.

    gaps: what a rank did between phases (Python that belongs to none) counts to the next phase, or where a wait
        follows to the one before. Padded phases end at their deadlines and have no gaps.
    """
    own = timeline[(timeline["rank"] == rank) & timeline["kind"].isin(["phase", "wait"])]
    rows = own.sort_values(["start", "end"], kind="stable")
    found: Recorded = deque()
    free = float(rows["start"].iloc[0])
    for row in rows.to_dict("records"):
        gap = row["start"] - free if gaps else 0.0
        if row["kind"] == "phase":
            found.append((row["step"], row["name"], row["end"] - row["start"] + gap))
        elif found and gap > 0:
            step, name, seconds = found[-1]
            found[-1] = (step, name, seconds + gap)
        free = float(row["end"])
    return found


def _step_times(executed: Sequence[Executed]) -> NDArray[np.float64]:
    frames = [rank_steps(one, rank) for rank, one in enumerate(executed)]
    return np.array(step_seconds(pd.concat(frames, ignore_index=True)))


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
