"""What the conformance test asks of every recipe (`tests/pipelines/test_conformance.py`), asked of a fork.

Exactness, events and bytes are looked at in `one_fork.arms`.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from harness.measure.quality import view_quality
from harness.run.checkpoints import checkpointed_plan, saver, start_or_resume
from harness.run.execute import render_views, runtime_of
from harness.run.shards import shard_saver, start_or_resume_shard
from harness.run.together import run_threads
from harness.run.workload import Workload
from odin.arms import arm
from odin.comm.transport import SingleRank
from odin.keeper import Keeper, NominalKeeper
from odin.mixed import mixed_runtime
from odin.mixed.owners import Owners
from odin.plan import Plan
from odin.runtime import Runtime
from pipelines.export import read_ply, write_ply
from tests.mixed.rooms import LINK, price
from tests.odin.threads import run_ranks

EVERY, FEW = 9, 12  # steps between checkpoints, and of the run on one and on two ranks


@dataclass(frozen=True)
class Conformance:
    """What was found.

    resumed_from, resumed: the step of a resumed run, and whether it ended in the state of the one that was not stopped
    ply:        the model is read back from its file bit for bit
    drawn, missed: rows that views drew, and how many of them their scopes of a step before did not hold; sharded: 0, 0
    gap, rows:  one rank against two at the same views: largest relative difference of a loss, and rows at the end
    psnr:       of the test views before and after training [dB]
    opacity:    lowest logit at the end: below 0, which an activated opacity never is
    """

    resumed_from: int
    resumed: bool
    ply: bool
    drawn: int
    missed: int
    gap: float
    rows: list[int]
    psnr: list[float]
    opacity: float


def conformance(work: Workload) -> Conformance:
    """All of it, of a workload of two ranks."""
    start, resumed, ply = _resumed(work)
    drawn, missed = (0, 0) if work.family.sharded else _scopes(work)
    gap, rows = _ranks(work)
    trained = _trained(work, "barrier", work.plan(arm("barrier")))[2]
    opacity = float(trained.table.moments.p[:, trained.kinds["opacity"]].min())
    psnr = [_psnr(work, recipe) for recipe in (work.recipe(), trained)]
    return Conformance(start, resumed, ply, drawn, missed, gap, rows, psnr, opacity)


def sizes(work: Workload) -> list[list[int]]:
    """Height and width that the first view is trained at, before and after training."""
    after = _trained(work, "barrier", work.plan(arm("barrier")))[2]
    return [[recipe.cameras[0].height, recipe.cameras[0].width] for recipe in (work.recipe(), after)]


def _resumed(work: Workload) -> tuple[int, bool, bool]:
    quality = arm("quality")
    work = replace(work, config=replace(work.config, engine=replace(work.config.engine, ranks=1)))
    plan = checkpointed_plan(work, quality, EVERY)
    sharded = work.family.sharded
    start: Any = start_or_resume_shard if sharded else start_or_resume
    save: Any = shard_saver if sharded else saver
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.npz"
        whole, _ = start(work, plan, quality, SingleRank(), Keeper(), path)
        whole.run(on_step=save(work, whole, plan, EVERY, path))
        rest, first = start(work, plan, quality, SingleRank(), Keeper(), path)
        rest.run(first)
        parameters = whole.recipe.table.moments.p
        write_ply(Path(folder) / "model.ply", parameters)
        same = read_ply(Path(folder) / "model.ply").tobytes() == parameters.tobytes()
    states = [(run.recipe.table.digest(), run.version) for run in (whole, rest)]
    return first, states[0] == states[1], same


def _scopes(work: Workload) -> tuple[int, int]:
    """A view's scope is taken one step before it is projected: it has to hold every row that is then drawn."""
    drawn, missed = [], []
    plan = work.plan(arm("quality")).first(FEW)

    def main(transport: Any) -> None:
        recipe: Any = work.recipe()
        project = recipe.project

        def watched(view: int, rows: NDArray[np.int32], keeper: Keeper) -> Any:
            every = np.arange(len(recipe.table), dtype=np.int32)
            whole = project(view, every, Keeper())
            with torch.no_grad(), recipe.fork.device():
                seen = every[(recipe._render(recipe.views[view], whole.model)["radii"] > 0).numpy()]
            drawn.append(len(seen))
            missed.append(len(np.setdiff1d(seen, rows)))
            return project(view, rows, keeper)

        recipe.project = watched
        Runtime(recipe, plan, arm("quality"), transport, Keeper()).run()

    run_ranks(plan.ranks, main)
    return sum(drawn), sum(missed)


def _ranks(work: Workload) -> tuple[float, list[int]]:
    two = work.plan(arm("barrier-planned")).first(FEW)
    one = replace(two, units=two.units.reshape(FEW, 1, -1))
    losses, rows = zip(*(_trained(work, "barrier-planned", plan)[:2] for plan in (one, two)), strict=True)
    return float(np.max(np.abs(losses[0] - losses[1]) / losses[0])), list(rows)


def _psnr(work: Workload, recipe: Any) -> float:
    photos = {work.capture.cameras[i].name: work.capture.images[i] for i in work.capture.test}
    seen = render_views(recipe, work).items()
    return float(np.mean([view_quality(name, image, photos[name], with_ssim=False).psnr for name, image in seen]))


def _trained(work: Workload, name: str, plan: Plan) -> tuple[NDArray[np.float64], int, Any]:
    """Mean loss of each step [S], rows at the end, and the whole model."""
    chosen = arm(name)

    def replica(transport: Any) -> tuple[Runtime, Any]:
        runtime = runtime_of(chosen)(work.recipe(), plan, chosen, transport, Keeper())
        runtime.run()
        return runtime, runtime.recipe

    def shard(transport: Any) -> tuple[Runtime, Any]:
        recipe, keeper = work.recipe(), NominalKeeper(price)
        recipe.shard(transport.rank, transport.ranks)
        runtime: Any = mixed_runtime(chosen)(recipe, plan, chosen, transport, keeper)
        runtime.run()
        return runtime, recipe.whole(Owners(transport, keeper))

    every = run_threads(plan.ranks, LINK, shard) if work.family.sharded else run_ranks(plan.ranks, replica)[0]
    losses = np.mean([[record.loss for record in runtime.records] for runtime, _ in every], axis=0)
    whole = every[0][1]
    return losses, len(whole.table), whole
