"""Does the virtual engine's clock agree with real processes? (D§7)

    python -m benchmarks.cross_check runs                           # a folder of records of padded cells
    python -m benchmarks.cross_check runs-229 runs-295 runs-323 --steps 100

For each arm of each sequence of padded or shaped cells of real processes, the virtual engine trains the same cell once
more, with the durations that every rank's phases had in the record; when collectives are joined, start and arrive comes
out of its own runtime and link. Printed are the median over steps of the relative error of the step time, the error of
the sum, and beside them the same for the model alone (phases priced by the profile), which is what a study on the
virtual engine predicts. The exit code is 1 where the replayed median is above 5 %.

Padded durations are nominal, so they check program and link. Shaped ones (padded=false) are what the machine took, with
the Python between phases; on CPU cores that ranks share with anything else, that measures the operating system.
"""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.config import Config
from harness.config.convert import build
from harness.config.schema import Scene
from harness.measure.timeline import read_steps, read_timeline, step_seconds
from harness.run.collect import rank_steps
from harness.run.execute import Executed
from harness.run.together import train
from harness.run.warmup import Calibration
from harness.run.workload import Workload, load_workload
from harness.store.schema import Label, Measurement, Result
from harness.store.store import STEPS, TIMELINE, CellStore
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
        while self.step < self._until and self._recorded and self._recorded[0][1] == Phase.OVERRUN.value:
            with self.phase(Phase.OVERRUN):
                pass
        return arrival


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
    m, folder = result.measurement, store.path(result.cell_id)
    assert m is not None and m.link is not None
    calibration = _calibration(store, m)
    workload = load_workload(_virtual(result, scene))
    if workload.capture.manifest != result.cell.manifest:
        raise InputError(f"{workload.config.scene.path} is not the capture of cell {result.cell_id}.")
    recorded = np.array(step_seconds(read_steps(folder / STEPS)))[:steps]
    # Scopes are taken two steps ahead, so a shortened plan goes on for two steps more.
    plan = workload.plan(arm_named(result.cell.arm)).first(steps + AHEAD)
    timeline = read_timeline(folder / TIMELINE)
    gaps = m.padding_scale is None
    keepers = [ReplayingKeeper(recorded_phases(timeline, rank, gaps=gaps), steps) for rank in range(m.ranks)]
    replayed = _step_times(_run(workload, result, calibration, plan, m.padding_scale, keepers))
    modelled = _step_times(_run(workload, result, calibration, plan, m.padding_scale, None))
    return _compare(result, m, recorded, replayed[:steps], modelled[:steps])


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


def _run(
    workload: Workload,
    result: Result,
    calibration: Calibration,
    plan: Plan,
    scale: float | None,
    keepers: Sequence[NominalKeeper] | None,
) -> list[Executed]:
    """Train on the keepers' durations, or on the profile's prices without them."""
    stretch = scale or 1.0
    price = calibration.profile.stretched(stretch)
    executed, _ = train(
        workload,
        arm_named(result.cell.arm),
        calibration.link.stretched(stretch),
        lambda t: NominalKeeper(price) if keepers is None else keepers[t.rank],
        plan=plan,
        budget=calibration.budget(plan.ranks),
    )
    return executed


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


def main(arguments: Sequence[str]) -> int:
    """Check the first padded or shaped run of every arm in every folder, print the table and write the CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--steps", type=int, default=100, help="compare the first so many steps")
    parser.add_argument("--scene", help="where the capture lies now, if not where it was recorded")
    parser.add_argument("--arms", nargs="+", default=list(ARMS))
    parser.add_argument("--out", type=Path, default=Path("runs/cross-check/cross_check.csv"))
    given = parser.parse_args(arguments)
    checks: list[Check] = []
    try:
        for folder in given.folders:
            store = CellStore(folder, create=False)
            for result in store.results():
                timed = result.cell.label in EMULATED and result.measurement is not None
                if timed and result.cell.repeat == 0 and result.cell.arm in given.arms:
                    checks.append(check(store, result, min(given.steps, len(result.measurement.losses)), given.scene))  # type: ignore[union-attr]
                    print(_line(checks[-1]), flush=True)
        if not checks:
            raise InputError("None of these folders holds a padded or shaped cell of these arms.")
    except OdinError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    given.out.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame([asdict(one) for one in checks]).to_csv(given.out, index=False)
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
