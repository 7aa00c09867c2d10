"""The virtual engine: every rank of a cell as a thread of one process, real numerics, computed time (D§7).

    python -m harness.run.virtual SPEC.json

Rendering, gradients, scopes, admission and quality are those of the process engine, by the same runtime; only the
clock is computed, from a profile and the link model. Numba kernels release the GIL, so the threads use all cores.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from harness.config import Cell
from harness.jitter import jitter_of
from harness.measure.resident import Resident
from harness.measure.timeline import write_steps, write_timeline, write_trace
from harness.measure.windows import delays_frame, waited_seconds, windows_frame, write_windows
from harness.profiles.calibration import committed_calibration
from harness.run.collect import measure, quality_of, rank_steps, rank_timeline, record, remeasure
from harness.run.execute import Executed, render_views
from harness.run.failure import Whereabouts, leave, rank_of
from harness.run.faults import Injector
from harness.run.retiming import Job, Way, jobs
from harness.run.spec import RunSpec
from harness.run.telling import tell
from harness.run.together import retime, run_threads, train
from harness.run.warmup import Calibration, calibrate, sections, warm_up
from harness.run.workload import Workload, compile_kernels, load_workload
from harness.store.files import copy_file, replacing, write_text
from harness.store.provenance import collect_provenance, now
from harness.store.schema import Jitter, Measurement, Memory, Result
from harness.store.store import DELAYS, MODEL, STEPS, TIMELINE, TRACE, WINDOWS, CellStore
from odin.arms import Arm
from odin.arms import arm as arm_named
from odin.comm.link import UNSHAPED
from odin.ledger import RING
from odin.losses import StepRecord
from odin.plan import Plan
from odin.replay import Trajectory
from odin.shared import SharedTable
from odin.table import ParameterTable
from pipelines.export import write_ply

SECONDS_BETWEEN_MESSAGES = 0.5


class VirtualWorker:
    """Runs the cells of a spec in this process."""

    def __init__(self, spec: RunSpec) -> None:
        self.spec = spec
        self.workload = load_workload(spec.config)
        self.store = CellStore(Path(spec.config.out))
        self.provenance = collect_provenance(started=now())
        self._results: dict[int, Result] = {}
        self._trajectories: dict[int, list[Trajectory]] = {}
        self._faults = [Injector(spec, rank) for rank in range(spec.config.engine.ranks if spec.config.faults else 0)]

    def run(self) -> None:
        """Compile, price, then train or re-time every cell."""
        torch.set_num_threads(1)
        tell(stage="compile")
        compile_kernels(self.spec.config)
        recipe = self.workload.recipe()
        self.initial = quality_of(render_views(recipe, self.workload), self.workload, with_ssim=True)
        self.cells(self._calibrate())

    def cells(self, calibration: Calibration, *, retime: bool = True) -> None:
        """All cells of the spec. retime: False trains every cell, also those that train the bits of another."""
        arms = [arm_named(name) for name, _ in self.spec.cells]
        plans = {a.order: self.workload.plan(a) for a in arms}
        digests = {order: plan.digest() for order, plan in plans.items()}
        train_all = [Job(index=index, way=Way.TRAIN) for index in range(len(arms))]
        # What a shard sends depends on the arm; and a fault strikes where something is trained.
        retime = retime and not self.workload.family.sharded and not self._faults
        for job in jobs(arms, lambda a: digests[a.order]) if retime else train_all:
            cell = self.spec.cell(job.index)
            tell(stage="cell", index=job.index, arm=cell.arm, repeat=cell.repeat, steps=cell.config.scale.steps)
            self._cell(job, cell, plans[arms[job.index].order], calibration)

    def _calibrate(self) -> Calibration:
        """Committed prices, or those of a warm-up of two ranks on this machine; the link is solved for all ranks."""
        config = self.workload.config
        if config.compute.committed:
            return self._keep(committed_calibration(self.workload, run_threads))
        two = Workload(config=replace(config, engine=replace(config.engine, ranks=2)), capture=self.workload.capture)
        tell(stage="warm-up", steps=sum(sections(two).values()))
        seen = run_threads(2, UNSHAPED, lambda t: warm_up(two, lambda name, link, steps: t))
        timelines = [{name: (done.entries, done.points) for name, done in one.items()} for one in seen]
        return self._keep(calibrate(self.workload, timelines))

    def _keep(self, calibration: Calibration) -> Calibration:
        write_text(self.store.root / "profiles" / f"{calibration.name}.json", calibration.to_json())
        tell(stage="calibrated", compute=calibration.compute)
        return calibration

    def _cell(self, job: Job, cell: Cell, plan: Plan, calibration: Calibration) -> None:
        started, source = now(), None if job.source is None else self._results[job.source]
        if job.way is Way.COPY:
            assert source is not None and source.measurement is not None
            trained = source.measurement.retimed_from or source.cell_id
            measurement = source.measurement.model_copy(update={"retimed_from": trained, "memory": None})
            made = _Made(measurement=measurement)
        elif job.way is Way.RETIME:
            assert source is not None
            made = self._retimed(job, cell, plan, calibration, source)
        else:
            made = self._trained(job, cell, plan, calibration)
        result = record(cell, self.workload, made.measurement, self.provenance.spanning(started, now()))
        self._write(cell, result, made, source)
        self._results[job.index] = result
        tell(stage="done", index=job.index, cell_id=result.cell_id)

    def _trained(self, job: Job, cell: Cell, plan: Plan, calibration: Calibration) -> _Made:
        arm, resident = arm_named(cell.arm), Resident()
        for injector in self._faults:
            injector.enter(cell)
        setting = self._setting(job.index, plan, calibration) | {"faults": self._faults}
        executed, trajectories = train(self.workload, arm, calibration.link, record=job.record, **setting)
        if job.record:
            self._trajectories[job.index] = trajectories
        timeline, steps = _frames(executed)
        first = executed[0]
        measurement = measure(
            self.workload,
            first,
            timeline,
            steps,
            calibration,
            late_steps=0,
            initial=self.initial,
            renders=render_views(first.recipe, self.workload),
            memory=None if first.shard else ranks_memory(resident, first.recipe.table, plan.ranks),
            shards=[e.shard for e in executed if e.shard is not None],
        )
        measurement = measurement.model_copy(update=_jitter(arm, executed, calibration))
        return _Made(measurement=measurement, executed=executed, timeline=timeline, steps=steps)

    def _retimed(self, job: Job, cell: Cell, plan: Plan, calibration: Calibration, source: Result) -> _Made:
        assert job.source is not None
        setting = self._setting(job.index, plan, calibration) | {"trajectories": self._trajectories[job.source]}
        arm = arm_named(cell.arm)
        executed = retime(self.workload, arm, calibration.link, **setting)
        timeline, steps = _frames(executed)
        measurement = remeasure(source, executed[0], timeline, steps)
        measurement = measurement.model_copy(update=_jitter(arm, executed, calibration))
        return _Made(measurement=measurement, executed=executed, timeline=timeline, steps=steps)

    def _setting(self, index: int, plan: Plan, calibration: Calibration) -> dict[str, Any]:
        """What training and re-timing are given alike."""
        return {
            "plan": plan,
            "budget": calibration.budget(plan.ranks),
            "keeper": calibration.keeper,
            "on_step": _Teller(self.spec, index, plan.steps),
        }

    def _write(self, cell: Cell, result: Result, made: _Made, source: Result | None) -> None:
        """Files of the cell; the record last, because with it the cell is done."""
        folder, origin = self.store.path(result.cell_id), None if source is None else self.store.path(source.cell_id)
        if made.timeline is not None and made.steps is not None:
            write_timeline(made.timeline, folder / TIMELINE)
            write_steps(made.steps, folder / STEPS)
            write_trace(made.timeline, folder / TRACE)
            waited = waited_seconds(made.timeline, made.steps)
            write_windows(windows_frame(made.executed[0].windows, waited), folder / WINDOWS)
            if made.executed[0].delays:
                write_windows(delays_frame(made.executed[0].delays), folder / DELAYS)
        elif origin is not None:
            for name in (TIMELINE, STEPS, TRACE, WINDOWS, DELAYS):
                if name != DELAYS or (origin / name).exists():
                    copy_file(origin / name, folder / name)
        if origin is None:  # also of a repeat: another cell may take it from there
            with replacing(folder / MODEL) as temporary:
                write_ply(temporary, made.executed[0].recipe.table.moments.p)
        elif cell.repeat == 0 and origin is not None:
            copy_file(origin / MODEL, folder / MODEL)
        self.store.write_result(result)


@dataclass(frozen=True, kw_only=True)
class _Made:
    """A finished cell; without frames where they are those of another cell."""

    measurement: Measurement
    executed: list[Executed] = field(default_factory=list)
    timeline: pd.DataFrame | None = None
    steps: pd.DataFrame | None = None


def _frames(executed: list[Executed]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Timeline and steps of all ranks."""
    timeline = pd.concat([rank_timeline(e, rank) for rank, e in enumerate(executed)], ignore_index=True)
    return timeline, pd.concat([rank_steps(e, rank) for rank, e in enumerate(executed)], ignore_index=True)


def _jitter(arm: Arm, executed: list[Executed], calibration: Calibration) -> dict[str, Jitter | None]:
    """The field of a measurement that says how far its time moves."""
    entries, joins = [e.entries for e in executed], [e.joins for e in executed]
    price, steps = calibration.profile.price, executed[0].plan.steps
    return {"jitter": jitter_of(arm, entries, joins, price=price, slowdown=calibration.slowdown, steps=steps)}


def ranks_memory(resident: Resident, table: ParameterTable, ranks: int) -> Memory | None:
    """What the ranks have taken since `resident` was made; None where the system does not tell."""
    before, peak = resident.before, resident.peak
    if before is None or peak is None:
        return None
    layout, rows = table.slot_layout, len(table)
    return Memory(
        tables=1 if isinstance(table, SharedTable) else ranks,
        table_bytes=3 * 4 * rows * table.layout.columns,
        slot_bytes=RING * rows * (4 * layout.columns + 8 * len(layout.groups)),
        peak_bytes=peak,
        rank_bytes=max(0, peak - before) // ranks,
    )


class _Teller:
    """Progress of rank 0's steps."""

    def __init__(self, spec: RunSpec, index: int, steps: int) -> None:
        cell = spec.cell(index)
        self._index, self._steps, self._places, self._told = index, steps, Whereabouts(spec), 0.0
        self._name = f"{cell.arm} #{cell.repeat + 1}"

    def __call__(self, step: StepRecord) -> None:
        self._places.say(0, f"after {step.step + 1} steps of {self._name}")
        # By time, not by steps: one step of 64 ranks can take minutes, and the supervisor waits for a sign of life.
        moment = time.monotonic()
        if moment - self._told > SECONDS_BETWEEN_MESSAGES or step.step + 1 == self._steps:
            self._told = moment
            tell(stage="step", index=self._index, done=step.step + 1, loss=round(step.loss, 5))


def main(arguments: list[str]) -> int:
    """Run all cells; on failure leave the reason where the supervisor looks for it."""
    spec = RunSpec.load(Path(arguments[0]))
    try:
        VirtualWorker(spec).run()
    except Exception as error:
        rank = rank_of(error)
        where = Whereabouts(spec).of(0) or "at start-up"
        return leave(spec, 0 if rank is None else rank, where, error)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
