"""All ranks of one virtual cell in this process: what they hold and decide alike exists once (`odin.shared`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from harness.run.execute import Executed, OnStep, execute
from harness.run.failure import of_rank
from harness.run.faults import Injector
from harness.run.workload import Workload
from odin.arms import Arm, Waits
from odin.budget import Budget
from odin.comm.link import Link
from odin.comm.virtual import Exchange, VirtualTransport
from odin.keeper import Keeper
from odin.plan import Plan
from odin.publication import ChunkedPublication
from odin.replay import RecordingRecipe, ReplayLedger, ReplayRecipe, Trajectory
from odin.runtime import policy_of
from odin.shared import Meeting, SharedRecipe, SharedTable
from pipelines.reference.threedgs import GaussianSplatting

T = TypeVar("T")
MakeKeeper = Callable[[VirtualTransport], Keeper]


def run_threads(
    ranks: int, link: Link, main: Callable[[VirtualTransport], T], meeting: Meeting | None = None
) -> list[T]:
    """`main` on every rank at once, in rank order; the first failure is raised here and ends all.

    meeting: of the same ranks, where they share a table
    """
    exchange, control = Exchange(ranks, link), Exchange(ranks, Link(name="control"))
    results: list[T | None] = [None] * ranks
    errors: list[BaseException] = []

    def call(rank: int) -> None:
        try:
            results[rank] = main(VirtualTransport(exchange, control, rank))
        except BaseException as error:
            of_rank(error, rank)
            errors.append(error)
            exchange.fail(error)
            control.fail(error)
            if meeting is not None:
                meeting.abort()

    threads = [threading.Thread(target=call, args=(rank,), name=f"rank-{rank}") for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [result for result in results if result is not None]


def shares_table(arm: Arm) -> bool:
    """Whether replicas of the table are equal at every point of an arm's program: not where each rank decides for
    itself how far to wait, nor inside torch's DistributedDataParallel."""
    return policy_of(arm) is not ChunkedPublication and arm.waits is not Waits.DDP


def models(workload: Workload, ranks: int) -> list[GaussianSplatting]:
    """The initial model, once for each rank; initialising it is the same for all."""
    first = workload.recipe()
    if type(first) is not GaussianSplatting:  # a recipe with more state than this one knows how to copy
        return [first, *(workload.recipe() for _ in range(1, ranks))]
    return [first, *(first.replica() for _ in range(1, ranks))]


def train(
    workload: Workload,
    arm: Arm,
    link: Link,
    keeper: MakeKeeper,
    *,
    plan: Plan | None = None,
    budget: Budget | None = None,
    on_step: OnStep | None = None,
    record: bool = False,
    share: bool = True,
    faults: Sequence[Injector] = (),
) -> tuple[list[Executed], list[Trajectory]]:
    """Train an arm on all ranks: what each rank saw, and what re-timing needs of it if asked to `record`.

    keeper:  makes a rank's keeper
    on_step: called by rank 0
    share:   one table for all ranks; False is the plain reference, a replica for each
    faults:  of each rank, which have entered the cell
    """
    plan = plan or workload.plan(arm)
    ranks = plan.ranks
    recipes: list[Any] = list(models(workload, ranks))
    share = share and not workload.family.sharded and shares_table(arm) and ranks > 1 and recipes[0].table.held is None
    meeting = Meeting(ranks) if share else None
    if meeting is not None:
        views = SharedTable.views(recipes[0].table, meeting)
        recipes = [SharedRecipe(r, v, meeting, plan.global_batch) for r, v in zip(recipes, views, strict=True)]
    if record:
        recipes = [RecordingRecipe(recipe, plan) for recipe in recipes]

    def rank(transport: VirtualTransport) -> Executed:
        own, tell = recipes[transport.rank], on_step if transport.rank == 0 else None
        if faults:
            own, tell = faults[transport.rank].adopt(own), faults[transport.rank].watching(tell)
        return execute(workload, arm, transport, keeper(transport), recipe=own, plan=plan, budget=budget, on_step=tell)

    executed = run_threads(ranks, link, rank, meeting)
    return executed, [recipe.trajectory for recipe in recipes] if record else []


def retime(
    workload: Workload,
    arm: Arm,
    link: Link,
    keeper: MakeKeeper,
    trajectories: list[Trajectory],
    *,
    plan: Plan | None = None,
    budget: Budget | None = None,
    on_step: OnStep | None = None,
) -> list[Executed]:
    """What each rank would have seen under another arm that trains the recorded bits. The recipes of the result have
    no values."""
    plan = plan or workload.plan(arm)
    ranks, inner = plan.ranks, workload.recipe()
    meeting = Meeting(ranks)

    def rank(transport: VirtualTransport) -> Executed:
        own = keeper(transport)
        recipe: Any = ReplayRecipe(inner, plan, trajectories[transport.rank], own)
        recipe.table.once = lambda compute: meeting.once(transport.rank, compute)
        tell = on_step if transport.rank == 0 else None
        return execute(
            workload, arm, transport, own, recipe=recipe, plan=plan, budget=budget, on_step=tell, ledger=ReplayLedger()
        )

    return run_threads(ranks, link, rank, meeting)
