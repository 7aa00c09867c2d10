"""One fork in a process of its own: python -m tests.adapters.one_fork TASK PIPELINE [KEY=VALUE ...], an answer as JSON.

arms    trains under several arms; what each of them came to
conform checkpoints, scopes, numbers of ranks, model files and quality
sizes   of the photos, before and after training
parity  the fork's own training() against our loop, view by view
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from harness.config import load
from harness.run.execute import runtime_of
from harness.run.together import run_threads
from harness.run.workload import Workload, load_workload
from odin.arms import arm
from odin.comm.transport import SingleRank
from odin.keeper import Keeper, NominalKeeper
from odin.mixed import mixed_runtime
from odin.mixed.owners import Owners
from odin.plan import Plan
from odin.runtime import Runtime
from pipelines.adapters.modules import open_fork
from pipelines.adapters.pins import pins, require_checkout
from pipelines.adapters.registry import FORKS
from pipelines.reference.settings import REFERENCE_BUDGET
from tests.adapters.conform import conformance, sizes
from tests.adapters.upstream import Trained, train_upstream
from tests.mixed.rooms import LINK, price
from tests.odin.threads import run_ranks

ARMS = ("barrier", "barrier-planned", "quality", "predicted")
# Of 100 steps, each of one view; on the boundary after them rows change.
STEPS, DENSIFY_EVERY = 100, 40


def workload(pipeline: str, words: list[str]) -> Workload:
    """A scene and a fork's settings."""
    return load_workload(load([f"pipeline={pipeline}", "source=fork", "padded=false", "link=none", *words]))


def trained(work: Workload, name: str) -> list[Runtime]:
    """All ranks of an arm, as threads."""
    plan = work.plan(arm(name))

    def main(transport: object) -> Runtime:
        runtime = runtime_of(arm(name))(work.recipe(), plan, arm(name), transport, Keeper())
        runtime.run()
        return runtime

    return run_ranks(plan.ranks, main)[0]


@dataclass(frozen=True)
class Arm:
    """What an arm came to."""

    digests: list[str]
    rows: list[int]
    windows: dict[str, int]
    losses: list[float]
    payload: int
    splittable: bool


def replicated(work: Workload, name: str) -> Arm:
    """An arm of a table that every rank has."""
    ranks = trained(work, name)
    publication, recipe = ranks[0].publication, ranks[0].recipe
    digests = sorted({runtime.recipe.table.digest() for runtime in ranks})
    payload = sum(publication.payload_bytes.values())
    return finished(work, digests, recipe, publication.windows, ranks[0].records, payload)


def sharded(work: Workload, name: str) -> Arm:
    """An arm of a table whose rows have owners."""
    plan, chosen = work.plan(arm(name)), arm(name)

    def main(transport: Any) -> Any:
        recipe, keeper = work.recipe(), NominalKeeper(price)
        recipe.shard(transport.rank, transport.ranks)
        loop = mixed_runtime(chosen)(recipe, plan, chosen, transport, keeper)
        loop.run()
        whole = recipe.whole(Owners(transport, keeper))
        whole.table.t = recipe.table.t
        return whole, loop

    every = run_threads(plan.ranks, LINK, main)
    digests = sorted({whole.table.digest() for whole, _ in every})
    (whole, loop), payload = every[0], sum(sum(one.payload_bytes.values()) for _, one in every)
    return finished(work, digests, whole, loop.windows, loop.records, payload)


def finished(work: Workload, digests: list[str], recipe: Any, windows: Any, records: Any, payload: int) -> Arm:
    states = [window.state.value for window in windows]
    return Arm(
        digests=digests,
        rows=[len(work.recipe().table), len(recipe.table)],
        windows={state: states.count(state) for state in sorted(set(states))},
        losses=[record.loss for record in records],
        payload=payload,
        splittable=recipe.splittable,
    )


def arms(pipeline: str, words: list[str]) -> dict[str, Any]:
    """Each arm's final state, its windows and its losses."""
    work = workload(pipeline, words)
    answer = {}
    for name in ARMS:
        answer[name] = asdict((sharded if work.family.sharded else replicated)(work, name))
        print(name, {k: v for k, v in answer[name].items() if k != "losses"}, file=sys.stderr, flush=True)
    return answer


@dataclass(frozen=True)
class Ours:
    """Our loop's losses, and how many rows there were before each step."""

    losses: list[float]
    rows: list[int]


def train_ours(work: Workload, recipe: Any, plan: Plan) -> Ours:
    """Our loop, one rank, one view a step."""
    rows: list[int] = []
    chosen, name = arm("barrier-planned"), "observe" if work.family.sharded else "project"
    first = getattr(recipe, name)

    def counted(*given: Any, **named: Any) -> Any:
        rows.append(len(recipe.table))
        return first(*given, **named)

    setattr(recipe, name, counted)
    if work.family.sharded:
        recipe.shard(0, 1)
    loop = mixed_runtime(chosen) if work.family.sharded else Runtime
    runtime = loop(recipe, plan, chosen, SingleRank(), Keeper())
    runtime.run()
    return Ours([record.loss for record in runtime.records], rows)


def parity(pipeline: str, words: list[str], *, lineage: str = "") -> dict[str, Any]:
    """Both loops over the same views, from the same points, with the same draws.

    lineage: the pipeline whose checkout stands in for an absent one: DashGaussian keeps a baseline of 3DGS
    """
    every = DENSIFY_EVERY
    at = ",".join(str(n) for n in range(every, STEPS, every))
    fixed = ["ranks=1", "views_per_unit=1", f"steps={STEPS}", f"densify_at=[{at}]", "reset_at=[]", "sh_at=[]"]
    if lineage:
        work = workload(lineage, [*words, *fixed])
        work = replace(work, config=replace(work.config, pipeline=load(["pipeline=3dgs", *fixed]).pipeline))
        checkout = require_checkout(pins()[lineage])
    else:
        work = workload(pipeline, [*words, *fixed])
        checkout = require_checkout(pins()[pipeline])
    # The first events of a whole training: the last one is special to DashGaussian.
    through = tuple(range(every, work.settings.densify_until, every))
    settings = replace(work.settings, densify_from=0, densification_interval=every, densify_at=through)
    fork = open_fork(checkout, stand_ins=True)
    # As long as a whole training, of which both loops do the first steps: schedules are then those of upstream.
    recipe = FORKS[pipeline].recipe(fork, work.capture, settings, steps=REFERENCE_BUDGET, batch=1)
    plan = work.plan_for(arm("barrier-planned"), work.settings, STEPS)
    assert all(plan.blocking[n - 1] for n in range(every, STEPS, every))
    order = [int(view) for view in plan.units[:, 0, 0]]
    theirs: Trained = train_upstream(fork, pipeline, work.capture, settings, order, STEPS)
    ours = train_ours(work, recipe, plan)
    gaps = [abs(a - b) / abs(a) for a, b in zip(theirs.losses, ours.losses, strict=True)]
    return {
        "before": max(gaps[:every]),
        "after": max(gaps[every:]),
        "rows": [ours.rows[0], ours.rows[-1], theirs.rows[-1]],
        "count": max(abs(a - b) / a for a, b in zip(theirs.rows, ours.rows, strict=True)),
        "losses": [theirs.losses[0], theirs.losses[-1]],
    }


def main(arguments: list[str]) -> None:
    """Do a task and print its answer."""
    torch.set_num_threads(1)
    task, pipeline, *words = arguments
    if task == "arms":
        answer = arms(pipeline, words)
    elif task == "conform":
        answer = asdict(conformance(workload(pipeline, words)))
    elif task == "sizes":
        answer = {"sizes": sizes(workload(pipeline, words))}
    else:
        lineage = task.partition(":")[2]
        answer = parity(pipeline, words, lineage=lineage)
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1:])
