"""Sharded checkpoints: every owner writes its own rows at flushed state; resume is bit-identical (D§5, D§6).

A checkpoint is a folder `step-000120` with a file for each owner and, when all of them are written, an empty file
`complete`; only folders that have it are resumed from. Legend: W owners.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from harness.run.checkpoints import require_fit, require_own
from harness.run.shard_files import COMPLETE, OWNER, newest, owner_file, step_of
from harness.run.workload import Workload
from odin.arms import Arm
from odin.comm.transport import ExchangeTransport
from odin.errors import InputError
from odin.keeper import Keeper
from odin.losses import StepRecord
from odin.mixed import MixedRuntime, mixed_runtime
from odin.plan import Plan
from odin.publication.knowledge import Knowledge
from pipelines.checkpoint import Checkpoint, Header, load, require_match, save
from pipelines.reference.grendel import GrendelSplatting


def start_or_resume_shard(
    workload: Workload, plan: Plan, arm: Arm, transport: ExchangeTransport, keeper: Keeper, folder: Path
) -> tuple[MixedRuntime, int]:
    """A runtime of this owner and the step to start from: that of the newest whole checkpoint, else 0. All ranks call
    it together, on a plan with checkpoint boundaries.

    Raises InputError when the checkpoint is damaged, belongs to another run or to another number of owners.
    """
    recipe, kind = workload.recipe(), mixed_runtime(arm)
    assert isinstance(recipe, GrendelSplatting)
    recipe.shard(transport.rank, transport.ranks)
    source = newest(folder)
    if source is None:
        return kind(recipe, plan, arm, transport, keeper), 0
    path = owner_file(source, transport.rank, transport.ranks)
    if not path.exists():
        owners = sorted(p.name for p in source.glob("owner-*"))
        raise InputError(
            f"{source} holds no rows for owner {transport.rank} of {transport.ranks}; it has {', '.join(owners)}. "
            "Resume with as many ranks as wrote it."
        )
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
    recipe.restore(checkpoint, first_rank=True)  # statistics are this owner's own
    if checkpoint.evidence is not None:
        recipe.table.keep_evidence()[:] = checkpoint.evidence
    runtime = kind(recipe, plan, arm, transport, keeper, version=header.structural_version, fallen=header.fallen)
    if checkpoint.costs is not None:
        runtime.balancer.restore(header.next_step, checkpoint.costs)
    return runtime, header.next_step


def shard_saver(
    workload: Workload, runtime: MixedRuntime, plan: Plan, every: int, folder: Path, *, last: bool = False
) -> Callable[[StepRecord], None]:
    """An `on_step` that writes a checkpoint after every `every`-th step and removes older ones. Every rank calls it.

    last: after the last step too
    """
    transport = runtime.transport

    def on_step(record: StepRecord) -> None:
        step = record.step + 1
        if not (last if step == plan.steps else step % every == 0):
            return
        target = folder / f"step-{step:06d}"
        target.mkdir(parents=True, exist_ok=True)
        save(owner_file(target, transport.rank, transport.ranks), _own(workload, runtime, plan, step))
        transport.barrier()
        if transport.rank == 0:
            (target / COMPLETE).touch()
            for old in folder.glob("step-*"):
                if (step_of(old) or step) < step:
                    shutil.rmtree(old, ignore_errors=True)  # someone may be reading it
        transport.barrier()

    return on_step


def merged(source: Path) -> Checkpoint:
    """All owners' rows of a checkpoint as one, in global order: parameters, moments and statistics, for export or for
    another number of owners. Raises InputError where an owner is missing, or one of another checkpoint is among them.
    """
    parts = [load(path) for path in _owner_files(source)]
    places = np.concatenate([part.ids if part.ids is not None else np.zeros(0, np.int32) for part in parts])
    rows = sum(len(part.parameters) for part in parts)
    order = np.argsort(places)
    alike = all(_common(part) == _common(parts[0]) for part in parts)
    if not alike or not np.array_equal(places[order], np.arange(rows)):
        raise InputError(
            f"{source} holds shards of different models: they are not of one step, or their rows are not each row of "
            "one table once. A model needs all shards of one checkpoint; take another one."
        )
    return Checkpoint(
        header=parts[0].header,
        parameters=np.concatenate([part.parameters for part in parts])[order],
        m=np.concatenate([part.m for part in parts])[order],
        v=np.concatenate([part.v for part in parts])[order],
        statistics=np.concatenate([part.statistics for part in parts])[order],
    )


def restored(workload: Workload, source: Path) -> tuple[GrendelSplatting, int]:
    """The whole model of a checkpoint of shards on one rank, however many wrote it, for evaluation, and its step.

    Raises InputError where a shard is missing or damaged, or the checkpoint is of another scene or pipeline.
    """
    whole, recipe = merged(source), workload.recipe()
    assert isinstance(recipe, GrendelSplatting)
    require_own(source, whole.header, workload)
    recipe.restore(whole, first_rank=True)
    return recipe, whole.header.next_step


def _owner_files(source: Path) -> list[Path]:
    """The files of all owners, in rank order. Raises InputError where they are not all there."""
    found = [match for path in sorted(source.glob("owner-*")) if (match := OWNER.fullmatch(path.name))]
    ranks = int(found[0][1]) if found else 0
    files = [owner_file(source, rank, ranks) for rank in range(ranks)]
    if not files or {match[0] for match in found} != {path.name for path in files}:
        raise InputError(f"{source} has {len(found)} of {ranks or 'some'} owners; a model needs all of them.")
    if not (source / COMPLETE).exists():
        raise InputError(f"{source} was not finished: it has no file `{COMPLETE}`. Take an older checkpoint.")
    return files


def _common(part: Checkpoint) -> tuple[Header, int]:
    """What shards of one checkpoint share."""
    return replace(part.header, state={}), part.parameters.shape[1]


def _own(workload: Workload, runtime: MixedRuntime, plan: Plan, next_step: int) -> Checkpoint:
    recipe = runtime.recipe
    assert isinstance(recipe, GrendelSplatting)
    header = Header(
        pipeline=workload.config.pipeline.name,
        arm=runtime.arm.name,
        next_step=next_step,
        t=recipe.table.t,
        structural_version=runtime.version,
        sh_degree=recipe.degree,
        resets=recipe.resets,
        fallen=runtime.fallen,
        seed=workload.config.seed,
        plan=plan.digest(),
        manifest=workload.capture.manifest,
    )
    evidence = recipe.table.evidence
    costs = runtime.balancer.state(next_step)
    learnt = Knowledge(evidence=None if evidence is None else evidence.copy(), costs=costs, fallen=runtime.fallen)
    return recipe.checkpoint(header, recipe.statistics.sums(), learnt)
