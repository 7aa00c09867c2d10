"""A recorded cell trained once more on the virtual engine, with the durations of the record (D§7)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.config import Config, load
from harness.config.convert import build
from harness.config.keys import groups
from harness.config.schema import Link, Scene
from harness.measure.breakdown import Breakdown, breakdown
from harness.measure.timeline import read_timeline, step_seconds
from harness.run.collect import rank_steps, rank_timeline
from harness.run.execute import Executed
from harness.run.together import train
from harness.run.warmup import Calibration, solve_link
from harness.run.workload import Workload, load_workload
from harness.store.schema import Measurement, Result
from harness.store.store import TIMELINE, CellStore
from odin.arms import Dispatch
from odin.arms import arm as arm_named
from odin.comm.transport import Arrival, Handle
from odin.errors import InputError
from odin.keeper import NominalKeeper, Work
from odin.phases import Phase
from odin.plan import Plan

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


def step_times_of(executed: Sequence[Executed]) -> NDArray[np.float64]:
    """Raw step times of all ranks together, s."""
    frames = [rank_steps(one, rank) for rank, one in enumerate(executed)]
    return np.array(step_seconds(pd.concat(frames, ignore_index=True)))
