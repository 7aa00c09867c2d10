"""One cell on one rank: train under an arm and keep what was seen."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch

from harness.run.workload import Workload
from odin.arms import Arm, Waits
from odin.audit import AuditRecord
from odin.budget import Budget
from odin.comm.transport import ExchangeTransport, Transport
from odin.ddp import DdpRuntime
from odin.errors import RunError
from odin.finite import require_finite_rows
from odin.keeper import Entry, Keeper
from odin.ledger import Ledger
from odin.losses import StepRecord
from odin.memory import Memory
from odin.mixed import Owners, mixed_runtime
from odin.plan import Plan
from odin.publication import Window
from odin.publication.delays import Delays, sum_over_ranks
from odin.runtime import OnStep, Runtime
from pipelines.reference.redistribute import Redistribution
from pipelines.reference.threedgs import GaussianSplatting


@dataclass(frozen=True, kw_only=True)
class Executed:
    """A finished cell as one rank saw it. Times are seconds since the ranks started together.

    payload: bytes of gradient this rank put into collectives, per step
    joins:   where in `entries` each collective was joined, in their order; of a nominal clock
    shard:   most that this owner held, where primitives are sharded; `recipe` is then the whole model
    redistributions: how rows moved between owners
    """

    plan: Plan
    recipe: GaussianSplatting
    entries: list[Entry]
    records: list[StepRecord]
    windows: list[Window]
    audits: list[AuditRecord]
    delays: list[Delays]
    payload: list[int]
    late_steps: set[int]
    late_causes: Counter[str]
    points: list[int]
    origin: float
    initial_rows: int
    joins: list[int] = field(default_factory=list)
    shard: Memory | None = None
    redistributions: tuple[Redistribution, ...] = ()


def runtime_of(arm: Arm) -> type[Runtime]:
    """The training loop of an arm."""
    return DdpRuntime if arm.waits is Waits.DDP else Runtime


def execute(
    workload: Workload,
    arm: Arm,
    transport: Transport,
    keeper: Keeper,
    *,
    recipe: GaussianSplatting | None = None,
    plan: Plan | None = None,
    budget: Budget | None = None,
    on_step: OnStep | None = None,
    ledger: Ledger | None = None,
) -> Executed:
    """Train a cell from its initial model. All ranks call this together. ledger: in place of the policy's own."""
    recipe = recipe or workload.recipe()
    plan = plan or workload.plan(arm)
    require_equal_plans(plan, transport)
    if workload.family.sharded:
        return _execute_sharded(arm, transport, keeper, recipe, plan, on_step)
    initial = len(recipe.table)
    runtime = runtime_of(arm)(recipe, plan, arm, transport, keeper, budget=budget)
    arms_own = runtime.publication
    if ledger is not None:
        arms_own.ledger = ledger
    transport.barrier()
    runtime.run(on_step=on_step)
    runtime.require_equal_replicas(plan.steps - 1)
    publication, arms_own = runtime.publication, runtime.arms_own
    auditor = arms_own.auditor
    return Executed(
        plan=plan,
        recipe=recipe,
        entries=keeper.entries,
        records=runtime.records,
        windows=publication.windows,
        audits=auditor.records if auditor else [],
        delays=sum_over_ranks(getattr(arms_own, "delays", []), transport),
        payload=[publication.payload_bytes.get(s, 0) for s in range(plan.steps)],
        late_steps=keeper.late_steps,
        late_causes=keeper.late_causes,
        points=keeper.points,
        joins=keeper.joins,
        origin=runtime.records[0].start,
        initial_rows=initial,
    )


def _execute_sharded(
    arm: Arm, transport: Transport, keeper: Keeper, recipe: Any, plan: Plan, on_step: OnStep | None
) -> Executed:
    """Train one owner's shard; the whole model is put together after the clock has stopped."""
    initial, exchanging = len(recipe.table), cast(ExchangeTransport, transport)
    recipe.shard(transport.rank, transport.ranks)
    runtime = mixed_runtime(arm)(recipe, plan, arm, exchanging, keeper)
    transport.barrier()
    runtime.run(on_step=on_step)
    entries, points, joins = list(keeper.entries), list(keeper.points), list(keeper.joins)
    whole = recipe.whole(Owners(exchanging, keeper, recipe.device))
    require_finite_rows(whole.table.values(), plan.steps - 1)
    return Executed(
        plan=plan,
        recipe=whole,
        entries=entries,
        records=runtime.records,
        windows=runtime.windows,
        audits=runtime.auditor.records,
        delays=[],
        payload=[runtime.payload_bytes.get(s, 0) for s in range(plan.steps)],
        late_steps=keeper.late_steps,
        late_causes=keeper.late_causes,
        points=points,
        joins=joins,
        origin=runtime.records[0].start,
        initial_rows=initial,
        shard=runtime.peak,
        redistributions=tuple(recipe.redistributions),
    )


def require_equal_plans(plan: Plan, transport: Transport) -> None:
    """Raise RunError naming the ranks whose plan differs from rank 0's: they would train other views, or cut steps
    elsewhere, and sums of unrelated gradients look like any others. All ranks call this together."""
    digests = torch.zeros(transport.ranks, dtype=torch.int64)
    digests[transport.rank] = int(plan.digest()[:15], 16)
    transport.reduce_now(digests)
    differing = [r for r in range(transport.ranks) if digests[r] != digests[0]]
    if differing:
        raise RunError(
            f"Rank(s) {differing} have planned other steps than rank 0, so they see another partition or order of the "
            "views. The scene, the settings and the versions of packages must be the same on every rank. Nothing was "
            "trained."
        )


def render_views(recipe: GaussianSplatting, workload: Workload) -> dict[str, np.ndarray]:
    """Test views from the current table: name → float32 [height, width, 3]."""
    cameras = [workload.capture.cameras[i] for i in workload.capture.test]
    return {camera.name: recipe.image(camera) for camera in cameras}
