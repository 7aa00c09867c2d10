"""The virtual engine: every rank of a cell as a thread of one process, real numerics, computed time (D§7).

    python -m harness.run.virtual SPEC.json

Rendering, gradients, scopes, admission and quality are those of the process engine, by the same runtime; only the
clock is computed, from a profile and the link model. Numba kernels release the GIL, so the threads use all cores.
"""

from __future__ import annotations

import json
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pandas as pd
import torch

from harness.measure.timeline import write_steps, write_timeline, write_trace
from harness.measure.windows import windows_frame, write_windows
from harness.run.collect import measure, quality_of, rank_steps, rank_timeline, record
from harness.run.execute import Executed, execute, render_views
from harness.run.spec import RunSpec
from harness.run.warmup import Calibration, calibrate, sections, warm_up
from harness.run.workload import Workload, compile_kernels, load_workload
from harness.store.files import write_text
from harness.store.provenance import collect_provenance, now
from harness.store.store import MODEL, STEPS, TIMELINE, TRACE, WINDOWS, CellStore
from odin.arms import Arm
from odin.arms import arm as arm_named
from odin.comm.link import UNSHAPED, Link
from odin.comm.transport import Transport
from odin.comm.virtual import Exchange, VirtualTransport
from odin.errors import OdinError
from odin.keeper import NominalKeeper
from odin.runtime import StepRecord
from pipelines.export import write_ply

T = TypeVar("T")


def run_threads(ranks: int, link: Link, main: Callable[[VirtualTransport], T]) -> list[T]:
    """`main` on every rank at once, in rank order; the first failure is raised here and ends all."""
    exchange, control = Exchange(ranks, link), Exchange(ranks, Link(name="control"))
    results: list[T | None] = [None] * ranks
    errors: list[BaseException] = []

    def call(rank: int) -> None:
        try:
            results[rank] = main(VirtualTransport(exchange, control, rank))
        except BaseException as error:
            errors.append(error)
            exchange.fail(error)
            control.fail(error)

    threads = [threading.Thread(target=call, args=(rank,), name=f"rank-{rank}") for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [result for result in results if result is not None]


class VirtualWorker:
    """Runs the cells of a spec in this process."""

    def __init__(self, spec: RunSpec) -> None:
        self.spec = spec
        self.workload = load_workload(spec.config)
        self.store = CellStore(Path(spec.config.out))
        self.provenance = collect_provenance(started=now())

    def run(self) -> None:
        """Compile, price, then train every cell."""
        torch.set_num_threads(1)
        tell(stage="compile")
        compile_kernels(self.spec.config)
        recipe = self.workload.recipe()
        self.initial = quality_of(render_views(recipe, self.workload), self.workload, with_ssim=True)
        calibration = self._calibrate()
        for index in range(len(self.spec.cells)):
            self._cell(index, calibration)

    def _calibrate(self) -> Calibration:
        """Prices from a warm-up of two ranks on this machine; the link is solved for all ranks."""
        config = self.workload.config
        two = Workload(config=replace(config, engine=replace(config.engine, ranks=2)), capture=self.workload.capture)
        tell(stage="warm-up", steps=sum(sections(two).values()))
        seen = run_threads(2, UNSHAPED, lambda t: warm_up(two, lambda name, link, steps: t))
        timelines = [{name: (done.entries, done.points) for name, done in one.items()} for one in seen]
        calibration = calibrate(self.workload, timelines)
        write_text(self.store.root / "profiles" / f"{calibration.name}.json", calibration.to_json())
        tell(stage="calibrated", compute=calibration.compute)
        return calibration

    def _cell(self, index: int, calibration: Calibration) -> None:
        cell, started = self.spec.cell(index), now()
        ranks, arm = cell.config.engine.ranks, arm_named(cell.arm)
        tell(stage="cell", index=index, arm=cell.arm, repeat=cell.repeat, steps=cell.config.scale.steps)
        told = _Teller(index, cell.config.scale.steps)
        executed = run_threads(ranks, calibration.link, lambda t: self._rank(t, arm, calibration, told))
        timeline = pd.concat([rank_timeline(e, rank) for rank, e in enumerate(executed)], ignore_index=True)
        steps = pd.concat([rank_steps(e, rank) for rank, e in enumerate(executed)], ignore_index=True)
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
        )
        result = record(cell, self.workload, measurement, self.provenance.spanning(started, now()))
        folder = self.store.path(result.cell_id)
        write_timeline(timeline, folder / TIMELINE)
        write_steps(steps, folder / STEPS)
        write_trace(timeline, folder / TRACE)
        write_windows(windows_frame(first.windows), folder / WINDOWS)
        if cell.repeat == 0:
            write_ply(folder / MODEL, first.recipe.table.moments.p)
        self.store.write_result(result)
        tell(stage="done", index=index, cell_id=result.cell_id)

    def _rank(self, transport: Transport, arm: Arm, calibration: Calibration, told: _Teller) -> Executed:
        keeper = NominalKeeper(calibration.profile.price)
        on_step = told if transport.rank == 0 else None
        budget = calibration.budget(transport.ranks)
        return execute(self.workload, arm, transport, keeper, budget=budget, on_step=on_step)


class _Teller:
    """Progress of rank 0's steps."""

    def __init__(self, index: int, steps: int) -> None:
        self._index, self._steps = index, steps

    def __call__(self, step: StepRecord) -> None:
        if step.step % 5 == 4 or step.step + 1 == self._steps:
            tell(stage="step", index=self._index, done=step.step + 1, loss=round(step.loss, 5))


def tell(**message: object) -> None:
    """Send a message to the supervisor."""
    print(json.dumps(message), file=sys.stdout, flush=True)


def main(arguments: list[str]) -> int:
    """Run all cells; on failure leave the reason where the supervisor looks for it."""
    spec = RunSpec.load(Path(arguments[0]))
    try:
        VirtualWorker(spec).run()
    except OdinError as error:
        spec.failure(0).write_text(str(error), encoding="utf-8")
        return error.exit_code
    except Exception:
        traceback.print_exc()
        last = traceback.format_exc().strip().splitlines()[-1]
        spec.failure(0).write_text(f"{last} (whole traceback in {spec.log(0)})", encoding="utf-8")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
