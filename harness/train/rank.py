"""One rank of a training, or all of them as threads on the virtual engine.

python -m harness.run.rank harness.train.rank SPEC.json RANK
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from harness.run.checkpoints import checkpointed_plan, saver, start_or_resume
from harness.run.execute import require_equal_plans
from harness.run.failure import Whereabouts, leave, rank_of
from harness.run.group import Group
from harness.run.shards import shard_saver, start_or_resume_shard
from harness.run.spec import RunSpec
from harness.run.telling import tell
from harness.run.together import run_threads
from harness.run.workload import Workload, compile_kernels, load_workload
from harness.store.files import replacing, write_text
from harness.train.evaluate import judged
from harness.train.folder import TrainingFolder
from harness.train.log import TrainingLog
from harness.train.order import Order
from odin.arms import arm as arm_named
from odin.comm.link import UNSHAPED
from odin.comm.transport import ExchangeTransport, Transport
from odin.finite import require_finite_rows
from odin.keeper import Keeper
from odin.losses import StepRecord
from odin.mixed.owners import Owners
from odin.plan import Plan
from pipelines.columns import XYZ
from pipelines.export import write_ply

SECONDS_BETWEEN_MESSAGES = 0.5


class Stopped(Exception):
    """Training was asked to end at this checkpoint."""


class Trainer:
    """One rank's training."""

    def __init__(
        self, spec: RunSpec, workload: Workload, transport: Transport, keeper: Keeper, plan: Plan | None = None
    ) -> None:
        """plan: with checkpoint boundaries, where the ranks of a process share it"""
        self.spec, self.workload, self.transport, self.keeper = spec, workload, transport, keeper
        self.order, self.arm = Order.load(spec), arm_named(spec.cells[0][0])
        self.folder = TrainingFolder(Path(self.order.folder))
        self.sharded = workload.family.sharded
        self.rank = transport.rank
        self._places, self._told = Whereabouts(spec), 0.0
        self.plan = plan or checkpointed_plan(workload, self.arm, self.order.every)

    def run(self) -> None:
        """Train from the newest checkpoint to the end or to where it was asked to stop."""
        plan = self.plan
        require_equal_plans(plan, self.transport)
        start: Any = start_or_resume_shard if self.sharded else start_or_resume
        save: Any = shard_saver if self.sharded else saver
        place = self.folder.checkpoints(sharded=self.sharded)
        runtime, first = start(self.workload, plan, self.arm, self.transport, self.keeper, place)
        keep = save(self.workload, runtime, plan, self.order.every, place, last=True)
        self._tell(stage="resumed", step=first)
        if self.order.stop is not None and self.order.stop <= first < plan.steps:
            raise Stopped
        began = time.monotonic()
        with ExitStack() as open_log:
            log = open_log.enter_context(TrainingLog(self.folder.log, first)) if self.rank == 0 else None

            def on_step(record: StepRecord) -> None:
                done, recipe = record.step + 1, runtime.recipe
                self._places.say(self.rank, f"after {done} steps")
                if log is not None:
                    rate = f"{recipe.learning_rates(record.step)[XYZ].max():.9g}"
                    seconds = f"{time.monotonic() - began:.3f}"
                    log.write(
                        record.step, seconds, f"{record.loss:.6f}", rate, len(recipe.table), int(record.structural)
                    )
                keep(record)
                if done % self.order.every == 0:
                    self.keeper.forget()
                self._progress(done, plan.steps, record.loss)
                if done == self.order.stop and done < plan.steps:
                    raise Stopped

            self.transport.barrier()
            runtime.run(first, on_step)
        self._places.say(self.rank, "after training")
        self._finish(self._whole(runtime), plan.steps)

    def _whole(self, runtime: Any) -> Any:
        """The recipe with the whole model. All ranks call it together."""
        if self.sharded:
            return runtime.recipe.whole(
                Owners(cast(ExchangeTransport, self.transport), self.keeper, runtime.recipe.device)
            )
        runtime.require_equal_replicas(self.workload.config.scale.steps - 1)
        return runtime.recipe

    def _finish(self, recipe: Any, steps: int) -> None:
        if self.rank:
            return
        require_finite_rows(recipe.table.values(), steps - 1)
        with replacing(self.folder.model) as temporary:
            write_ply(temporary, recipe.table.moments.p)
        write_text(self.folder.result, judged(self.workload, recipe, steps).document())

    def _progress(self, done: int, steps: int, loss: float) -> None:
        moment = time.monotonic()
        if moment - self._told > SECONDS_BETWEEN_MESSAGES or done == steps:
            self._told = moment
            self._tell(stage="step", index=0, done=done, loss=round(loss, 5))

    def _tell(self, **message: object) -> None:
        if self.rank == 0:
            tell(**message)


def _alone(spec: RunSpec, rank: int) -> None:
    """This process is one rank."""
    group = Group(spec, rank)
    workload = replace(load_workload(spec.config), backend=group.seat.backend)
    group.tell(stage="compile")
    compile_kernels(spec.config)
    steps = spec.config.scale.steps
    group.tell(stage="cell", arm=spec.cells[0][0], repeat=0, steps=steps)
    transport = group.transport("training", UNSHAPED, steps)
    try:
        _to_the_end(Trainer(spec, workload, transport, group.seat.keeper(transport, None)))
    finally:
        transport.close()
    group.judged("the model")
    group.close()


def _together(spec: RunSpec) -> None:
    """All ranks are threads of this process, each with a table of its own."""
    workload = load_workload(spec.config)
    tell(stage="compile")
    compile_kernels(spec.config)
    tell(stage="cell", arm=spec.cells[0][0], repeat=0, steps=spec.config.scale.steps)
    ranks = spec.config.engine.ranks
    plan = checkpointed_plan(workload, arm_named(spec.cells[0][0]), Order.load(spec).every)
    run_threads(ranks, UNSHAPED, lambda transport: _to_the_end(Trainer(spec, workload, transport, Keeper(), plan)))


def _to_the_end(trainer: Trainer) -> bool:
    with suppress(Stopped):
        trainer.run()
    return True


def main(arguments: list[str]) -> int:
    """Run one rank; on failure leave the reason where the supervisor looks for it."""
    spec, rank = RunSpec.load(Path(arguments[0])), int(arguments[1])
    Whereabouts(spec).say(rank, "while it met the others")
    try:
        if spec.config.engine.virtual:
            import torch

            torch.set_num_threads(1)
            _together(spec)
        else:
            _alone(spec, rank)
    except Exception as error:
        failed = rank_of(error)  # of a thread
        failed = rank if failed is None else failed
        return leave(spec, failed, Whereabouts(spec).of(failed) or "at start-up", error)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
