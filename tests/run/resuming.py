"""Training that saves, stops anywhere and resumes, on either engine and for every pipeline.

python -m tests.run.resuming FOLDER PHASE RANK: one of two rank processes. Phase `whole` trains every pipeline to its
end and then once more up to a step of its own, where it stops; in the last pipeline the process is killed there. Phase
`resumed` trains the rest of each. Digests of the final state go to FOLDER/PHASE-NAME-RANK.

python -m tests.run.resuming threads NAME: both ranks of one pipeline in this process; prints the digest of each.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness.config import load
from harness.run.checkpoints import checkpointed_plan, saver, start_or_resume
from harness.run.group import Group
from harness.run.shards import shard_saver, start_or_resume_shard
from harness.run.spec import RunSpec
from harness.run.together import run_threads
from harness.run.workload import Workload, load_workload
from odin.arms import arm
from odin.comm.link import UNSHAPED
from odin.keeper import Keeper
from odin.losses import StepRecord
from odin.mixed.owners import Owners
from pipelines.reference.registry import FAMILIES

SCENE = "rooms?views=16&width=48&height=36&points=400"
STEPS, EVERY, RANKS = 24, 5, 2
# Densification between two checkpoints, a sum of held gradients across one, and 2DGS's reset last (it prunes soon).
EVENTS = ["densify_at=[8]", "reset_at=[18]", "sh_at=[4,13]", "test_every=0"]
OWN = {"taminggs": ["f_rest_every=4", "score_views=3", "primitive_budget=4"]}
PIPELINES = sorted(FAMILIES)
ARM = "throughput:evidence=local"  # the arm that has most to remember
ARM_OF = {name: "throughput" if FAMILIES[name].sharded else ARM for name in PIPELINES}


class Stop(Exception):
    """Training ends here."""


@cache
def workload(name: str) -> Workload:
    """A few steps of a pipeline."""
    words = [f"scene={SCENE}", f"pipeline={name}", f"steps={STEPS}", f"ranks={RANKS}", "views_per_unit=1"]
    words += ["padded=false", "link=none"]
    return load_workload(load([*words, *EVENTS, *OWN.get(name, [])]))


def train(name: str, transport: Any, path: Path, on_step: Callable[[StepRecord], None] | None = None) -> str:
    """Train from the newest checkpoint at `path` to the end; a digest of everything that a run is made of."""
    work, chosen = workload(name), arm(ARM_OF[name])
    plan, keeper = checkpointed_plan(work, chosen, EVERY), Keeper()
    start, save = (start_or_resume_shard, shard_saver) if work.family.sharded else (start_or_resume, saver)
    runtime, first = start(work, plan, chosen, transport, keeper, path)  # type: ignore[operator]
    keep = save(work, runtime, plan, EVERY, path)  # type: ignore[operator]

    def after(record: StepRecord) -> None:
        keep(record)
        if on_step is not None:
            on_step(record)

    transport.barrier()
    runtime.run(first, after)
    assert [r.step for r in runtime.records] == list(range(first, STEPS)), "the log's steps start anew"
    recipe: Any = runtime.recipe.whole(Owners(transport, keeper)) if work.family.sharded else runtime.recipe
    statistics = hashlib.sha256(summed(recipe, transport, work.family.sharded)).hexdigest()
    return f"{recipe.table.digest()} {recipe.degree} {recipe.resets} {recipe._state()} {runtime.version} {statistics}"


def summed(recipe: Any, transport: Any, sharded: bool) -> bytes:
    """Statistics of all ranks; a shard's model has them already."""
    local = recipe.statistics.local.clone()
    if not sharded:
        transport.reduce_now(local)
    return local.numpy().tobytes()


def stop_at(step: int) -> Callable[[StepRecord], None]:
    """An `on_step` that ends training after so many steps, as an error would."""

    def on_step(record: StepRecord) -> None:
        if record.step + 1 == step:
            raise Stop

    return on_step


def kill_at(step: int) -> Callable[[StepRecord], None]:
    """An `on_step` that ends the process after so many steps, as the system would."""

    def on_step(record: StepRecord) -> None:
        if record.step + 1 == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return on_step


def main(folder: Path, phase: str, rank: int) -> None:
    """One rank of one phase."""
    scratch = folder / phase
    spec = RunSpec(config=workload(PIPELINES[0]).config, cells=(), folder=scratch)
    group = Group(spec, rank)
    draw = random.Random(11)  # the same steps on both ranks
    stops = {name: draw.randrange(2, STEPS) for name in PIPELINES}
    for name in PIPELINES:

        def fresh(what: str, name: str = name) -> Any:
            return group.transport(f"{what} {name}", UNSHAPED, STEPS)

        cut = folder / f"cut-{name}"
        if phase == "resumed":
            (folder / f"resumed-{name}-{rank}").write_text(train(name, fresh("resumed"), cut))
            continue
        digest = train(name, fresh("whole"), folder / f"whole-checkpoints-{name}")
        (folder / f"whole-{name}-{rank}").write_text(digest)
        last = name == PIPELINES[-1]
        try:
            train(name, fresh("cut"), cut, (kill_at if last else stop_at)(stops[name]))
        except Stop:
            group.barrier()
    group.close()


def in_threads(name: str) -> list[str]:
    """Digests of the ranks of a training that nothing stops, on threads of this process."""
    workload(name)  # before there are threads, in which Hydra cannot compose
    with TemporaryDirectory() as folder:
        return run_threads(RANKS, UNSHAPED, lambda t: train(name, t, Path(folder) / "c.npz"))


if __name__ == "__main__":
    if sys.argv[1] == "threads":
        print(*in_threads(sys.argv[2]), sep="\n")
        sys.exit()
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
