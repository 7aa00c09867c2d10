"""One rank process: the same process runs every cell of a sequence, so no arm pays for imports or compilation.

python -m harness.run.worker SPEC.json RANK
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pandas as pd

from harness.measure.quality import Quality
from harness.measure.timeline import (
    read_steps,
    read_timeline,
    write_steps,
    write_timeline,
    write_trace,
)
from harness.measure.windows import delays_frame, waited_seconds, windows_frame, write_windows
from harness.run.collect import measure, quality_of, rank_steps, rank_timeline, record
from harness.run.execute import Executed, execute, render_views
from harness.run.failure import Whereabouts, leave
from harness.run.faults import Injector
from harness.run.fork_pin import fork_pin
from harness.run.group import Group
from harness.run.spec import RunSpec
from harness.run.warmup import Calibration, calibrate, load_section, save_section, sections, uncalibrated, warm_up
from harness.run.workload import compile_kernels, load_workload
from harness.store.files import replacing, write_text
from harness.store.provenance import collect_provenance, now
from harness.store.store import DELAYS, MODEL, STEPS, TIMELINE, TRACE, WINDOWS, CellStore
from odin.arms import arm as arm_named
from odin.comm.link import UNSHAPED
from odin.losses import StepRecord
from pipelines.export import write_ply

# Beyond this share of late steps a cell is repeated: a stall of the machine is not a lack of padding. If it is late
# again, the whole sequence is repeated with more padding, because its cells must share one (D§7 repeats once; a machine
# that others use needs it more often).
OVERRUN_LIMIT = 0.01
ATTEMPTS = 2
MORE_PADDING = 1.4
WIDENINGS = 3
BURN_IN_STEPS = 4


class Overrun(Exception):
    """A padded cell was late too often."""


class Worker:
    """Runs the cells of a spec on this rank."""

    def __init__(self, spec: RunSpec, group: Group) -> None:
        self.spec, self.group = spec, group
        self.workload = replace(load_workload(spec.config), backend=group.seat.backend)
        self.store = CellStore(Path(spec.config.out))
        self.faults = Injector(spec, group.rank)
        self._told, self._recorded = 0.0, 0
        self._clock_error: float | None = None
        self._places = Whereabouts(spec)
        self.where = "at start-up"
        # Of the code that was imported, not of a later tree.
        self.provenance = collect_provenance(started=now(), fork_pin=fork_pin(spec.config))

    @property
    def where(self) -> str:
        """What this rank is doing, in words that follow its name; the supervisor sees it too."""
        return self._where

    @where.setter
    def where(self, words: str) -> None:
        """It is doing that from now on."""
        self._where = words
        self._places.say(self.group.rank, words)

    def run(self) -> None:
        """Compile, warm up, then run every cell; again from the start while padding is too small."""
        self.group.tell(stage="compile")
        compile_kernels(self.spec.config)
        self._burn_in()
        if self.group.rank == 0:  # which writes the records
            self.initial = self._initial_quality()
        self.group.judged("initial model")
        calibration = self._calibrate()
        for widening in range(WIDENINGS + 1):
            try:
                self._cells(calibration, last_attempt=widening == WIDENINGS)
                return
            except Overrun:
                calibration = replace(calibration, stretch=calibration.stretch * MORE_PADDING)
                self.group.tell(stage="more padding", stretch=calibration.stretch)

    def _burn_in(self) -> None:
        """Run what a seat wants to have run before clocks start; the models are thrown away."""
        workload, seat = self.workload, self.group.seat
        for name in seat.burn_in:
            arm = arm_named(name)
            recipe = workload.with_settings(workload.settings, BURN_IN_STEPS)
            plan = workload.plan_for(arm, workload.settings, BURN_IN_STEPS)
            transport = self.group.transport(f"burn-in {name}", UNSHAPED, BURN_IN_STEPS)
            try:
                execute(workload, arm, transport, seat.keeper(transport, None), recipe=recipe, plan=plan)
            finally:
                transport.close()

    def _initial_quality(self) -> Quality:
        renders = render_views(self.workload.recipe(), self.workload)
        return quality_of(renders, self.workload, with_ssim=True)

    def _calibrate(self) -> Calibration:
        config = self.spec.config
        if not config.engine.padded and not config.link.shaped:
            return uncalibrated(self.workload)
        names = list(sections(self.workload))
        self.group.tell(stage="warm-up", steps=sum(sections(self.workload).values()))
        folder, rank = self.spec.folder, self.group.rank
        for name, executed in warm_up(self.workload, self.group.transport).items():
            save_section(folder / f"warm-up-{names.index(name)}-rank-{rank}.json", executed)
        self.group.barrier()
        text = None
        if rank == 0:
            seen = [
                {name: load_section(folder / f"warm-up-{k}-rank-{r}.json") for k, name in enumerate(names)}
                for r in range(self.group.ranks)
            ]
            found = calibrate(self.workload, seen)
            text = replace(found, stretch=found.stretch * config.engine.padding_reserve).to_json()
        calibration = Calibration.from_json(self.group.shared("calibration.json", text))
        if rank == 0:
            write_text(self.store.root / "profiles" / f"{calibration.name}.json", calibration.to_json())
        self.group.tell(stage="calibrated", stretch=calibration.stretch, compute=calibration.compute)
        return calibration

    def _cells(self, calibration: Calibration, *, last_attempt: bool) -> None:
        for index in range(len(self.spec.cells)):
            for _ in range(ATTEMPTS):
                executed, late, started = self._cell(index, calibration)
                if late <= OVERRUN_LIMIT * executed.plan.steps:
                    break
                causes = dict(executed.late_causes.most_common(4))  # of rank 0, which speaks for the others
                self.group.tell(stage="overrun", arm=self.spec.cell(index).arm, late_steps=late, causes=causes)
            else:
                if not last_attempt:
                    raise Overrun
            self._record(index, executed, calibration, late, started)

    def _cell(self, index: int, calibration: Calibration) -> tuple[Executed, int, datetime]:
        """Run one cell; what it did, its late steps over all ranks, and when it started."""
        cell, started = self.spec.cell(index), now()
        self.where = f"at the start of {cell.arm} #{cell.repeat + 1}"
        steps, padded = cell.config.scale.steps, cell.config.engine.padded
        stretch = calibration.stretch if padded else 1.0
        transport = self.group.transport(f"cell-{index}", calibration.link.stretched(stretch), steps)
        seat = self.group.seat
        keeper = seat.keeper(transport, calibration.profile.stretched(stretch) if padded else None)
        self.group.tell(stage="cell", index=index, arm=cell.arm, repeat=cell.repeat, steps=steps)
        arm = arm_named(cell.arm)
        self.faults.enter(cell)
        try:
            executed = execute(
                self.workload,
                arm,
                transport,
                keeper,
                **self.faults.given(self.workload, arm),
                budget=calibration.budget(self.group.ranks),
                on_step=self.faults.watching(lambda r: self._on_step(index, r)),
            )
            executed = seat.complete(executed, transport, keeper)
        finally:
            transport.close()
        return executed, self._late_steps(executed), started

    def _on_step(self, index: int, step: StepRecord) -> None:
        cell, moment = self.spec.cell(index), time.monotonic()
        self.where = f"after {step.step + 1} steps of {cell.arm} #{cell.repeat + 1}"
        if moment - self._told > 0.5 or step.step + 1 == self.spec.config.scale.steps:
            self._told = moment
            self.group.tell(stage="step", index=index, done=step.step + 1, loss=round(step.loss, 5))

    def _late_steps(self, executed: Executed) -> int:
        import torch

        flags = torch.zeros(len(executed.records), dtype=torch.int64)
        flags[sorted(executed.late_steps)] = 1
        if self.group.ranks > 1:
            torch.distributed.all_reduce(flags, op=torch.distributed.ReduceOp.MAX)
        return int(flags.sum())

    def _record(self, index: int, executed: Executed, calibration: Calibration, late: int, started: datetime) -> None:
        """Every rank writes its frames; rank 0 joins them and writes the cell's record."""
        rank, spec = self.group.rank, self.spec
        self._clock_error = self.group.clock_error()
        origin = -self.group.most(-executed.origin)  # the first rank to start is second 0 for all
        executed = replace(executed, origin=origin)
        write_timeline(rank_timeline(executed, rank), spec.frame(index, "timeline", rank))
        write_steps(rank_steps(executed, rank), spec.frame(index, "steps", rank))
        self.group.barrier()
        if rank == 0:
            self._write(index, executed, calibration, late, started)
        self._recorded += 1
        self.group.judged(f"record {self._recorded}")

    def _write(self, index: int, executed: Executed, calibration: Calibration, late: int, started: datetime) -> None:
        spec, ranks = self.spec, range(self.group.ranks)
        timeline = pd.concat([read_timeline(spec.frame(index, "timeline", r)) for r in ranks], ignore_index=True)
        steps = pd.concat([read_steps(spec.frame(index, "steps", r)) for r in ranks], ignore_index=True)
        measurement = measure(
            self.workload,
            executed,
            timeline,
            steps,
            calibration,
            late_steps=late,
            initial=self.initial,
            renders=render_views(executed.recipe, self.workload),
            shards=[executed.shard] if executed.shard is not None else [],
        )
        provenance = self.provenance.spanning(started, now(), self.group.priority, self._clock_error)
        result = record(spec.cell(index), self.workload, measurement, provenance)
        folder = self.store.path(result.cell_id)
        write_timeline(timeline, folder / TIMELINE)
        write_steps(steps, folder / STEPS)
        write_trace(timeline, folder / TRACE)
        write_windows(windows_frame(executed.windows, waited_seconds(timeline, steps)), folder / WINDOWS)
        if executed.delays:
            write_windows(delays_frame(executed.delays), folder / DELAYS)
        if spec.cell(index).repeat == 0:  # repeats differ in timing only
            with replacing(folder / MODEL) as temporary:
                write_ply(temporary, executed.recipe.table.moments.p)
        self.store.write_result(result)
        self.group.tell(stage="done", index=index, cell_id=result.cell_id)


def main(arguments: list[str]) -> int:
    """Run one rank; on failure leave the reason where the supervisor looks for it."""
    spec, rank = RunSpec.load(Path(arguments[0])), int(arguments[1])
    where = "while it met the others"
    worker: Worker | None = None
    Whereabouts(spec).say(rank, where)
    try:
        group = Group(spec, rank)
        worker = Worker(spec, group)
        worker.run()
        where = "at the end"
        group.close()
    except Exception as error:
        return leave(spec, rank, worker.where if worker is not None else where, error)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
