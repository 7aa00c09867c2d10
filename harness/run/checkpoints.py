"""Saving and resuming training at flushed state; resume is bit-identical (D§5)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.run.execute import runtime_of
from harness.run.workload import Workload
from odin.arms import Arm
from odin.comm.transport import Transport
from odin.errors import InputError
from odin.keeper import Keeper
from odin.losses import StepRecord
from odin.plan import Plan
from odin.publication.knowledge import Knowledge
from odin.runtime import Runtime, checkpoint_boundaries
from pipelines.checkpoint import Checkpoint, Header, load, require_match, require_shape, save
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
    recipe, kind = workload.recipe(), runtime_of(arm)
    if not path.exists():
        return kind(recipe, plan, arm, transport, keeper), 0
    checkpoint = load(path)
    header = checkpoint.header
    require_match(
        path,
        header,
        pipeline=workload.config.pipeline.name,
        arm=arm.name,
        plan=plan.digest(),
        manifest=workload.capture.manifest,
        seed=workload.config.seed,
    )
    require_fit(path, checkpoint, recipe, plan)
    recipe.restore(checkpoint, first_rank=transport.rank == 0)
    learnt = Knowledge(evidence=checkpoint.evidence, costs=checkpoint.costs, fallen=header.fallen)
    runtime = kind(recipe, plan, arm, transport, keeper, version=header.structural_version, knowledge=learnt)
    return runtime, header.next_step


def require_fit(path: Path, checkpoint: Checkpoint, recipe: GaussianSplatting, plan: Plan) -> None:
    """Raise InputError when a checkpoint of this run holds arrays that the recipe or the plan has no place for."""
    held = recipe.table.held
    require_shape(
        path,
        checkpoint,
        columns=recipe.table.layout.columns,
        held=None if held is None else held.columns,
        views=plan.train_count if checkpoint.ids is None else None,
        steps=plan.steps,
    )


def require_own(path: Path, header: Header, workload: Workload) -> None:
    """Raise InputError when a checkpoint is of another pipeline or scene than the one to be evaluated."""
    own = workload.config.pipeline.name, workload.capture.manifest
    if (header.pipeline, header.manifest) != own:
        raise InputError(
            f"Checkpoint {path} is of pipeline {header.pipeline} and scene {header.manifest[:16]}…, not of {own[0]} "
            f"and {own[1][:16]}…. Evaluate it with the scene that it was trained on."
        )


def saver(
    workload: Workload, runtime: Runtime, plan: Plan, every: int, path: Path, *, last: bool = False
) -> Callable[[StepRecord], None]:
    """An `on_step` that writes a checkpoint after every `every`-th step. Every rank calls it, rank 0 writes.

    last: after the last step too
    """

    def on_step(record: StepRecord) -> None:
        done = record.step + 1
        if last if done == plan.steps else done % every == 0:
            checkpoint = _gather(workload, runtime, plan, record.step + 1)
            if runtime.transport.rank == 0:
                save(path, checkpoint)
            runtime.transport.barrier()

    return on_step


def _gather(workload: Workload, runtime: Runtime, plan: Plan, next_step: int) -> Checkpoint:
    recipe = runtime.recipe
    assert isinstance(recipe, GaussianSplatting)
    statistics, learnt = recipe.statistics.local.clone(), runtime.publication.knowledge()
    runtime.transport.reduce_now(statistics)
    header = Header(
        pipeline=workload.config.pipeline.name,
        arm=runtime.arms_own.arm.name,
        next_step=next_step,
        t=recipe.table.t,
        structural_version=runtime.version,
        sh_degree=recipe.degree,
        resets=recipe.resets,
        fallen=learnt.fallen,
        seed=workload.config.seed,
        plan=plan.digest(),
        manifest=workload.capture.manifest,
    )
    return recipe.checkpoint(header, statistics.cpu().numpy(), learnt)
