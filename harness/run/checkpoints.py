"""Saving and resuming training at flushed state; resume is bit-identical (D§5)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.run.workload import Workload
from odin.arms import Arm
from odin.comm.transport import Transport
from odin.keeper import Keeper
from odin.plan import Plan
from odin.runtime import Runtime, StepRecord, checkpoint_boundaries
from pipelines.checkpoint import Checkpoint, Header, load, require_match, save
from pipelines.reference.threedgs import GaussianSplatting


def checkpointed_plan(workload: Workload, arm: Arm, every: int) -> Plan:
    """The arm's plan with a flush after every `every`-th step. A resumed run must use the same `every`."""
    return checkpoint_boundaries(workload.plan(arm), every)


def start_or_resume(
    workload: Workload, plan: Plan, arm: Arm, transport: Transport, keeper: Keeper, path: Path
) -> tuple[Runtime, int]:
    """A runtime and the step to start from: the checkpoint's if there is one at `path`, else 0.

    Raises InputError when the checkpoint is damaged or belongs to another run.
    """
    recipe = workload.recipe()
    if not path.exists():
        return Runtime(recipe, plan, arm, transport, keeper), 0
    checkpoint = load(path)
    header = checkpoint.header
    require_match(
        path,
        header,
        pipeline=workload.config.pipeline.name,
        plan=plan.digest(),
        manifest=workload.capture.manifest,
        seed=workload.config.seed,
    )
    recipe.restore(checkpoint, first_rank=transport.rank == 0)
    runtime = Runtime(recipe, plan, arm, transport, keeper, version=header.structural_version)
    return runtime, header.next_step


def saver(workload: Workload, runtime: Runtime, plan: Plan, every: int, path: Path) -> Callable[[StepRecord], None]:
    """An `on_step` that writes a checkpoint after every `every`-th step. Every rank calls it, rank 0 writes."""

    def on_step(record: StepRecord) -> None:
        if (record.step + 1) % every == 0 and record.step + 1 < plan.steps:
            checkpoint = _gather(workload, runtime, plan, record.step + 1)
            if runtime.transport.rank == 0:
                save(path, checkpoint)
            runtime.transport.barrier()

    return on_step


def _gather(workload: Workload, runtime: Runtime, plan: Plan, next_step: int) -> Checkpoint:
    recipe = runtime.recipe
    assert isinstance(recipe, GaussianSplatting)
    statistics = recipe.statistics.local.clone()
    runtime.transport.reduce_now(statistics)
    header = Header(
        pipeline=workload.config.pipeline.name,
        next_step=next_step,
        t=recipe.table.t,
        structural_version=runtime.version,
        sh_degree=recipe.degree,
        resets=recipe.resets,
        seed=workload.config.seed,
        plan=plan.digest(),
        manifest=workload.capture.manifest,
    )
    return recipe.checkpoint(header, statistics.numpy())
