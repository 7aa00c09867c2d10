"""Resume equals the uninterrupted run bit for bit: densify at 40, stop at 60, resume to 100."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.config import load
from harness.run.checkpoints import checkpointed_plan, saver, start_or_resume
from harness.run.workload import Workload, load_workload
from odin.arms import ARMS
from odin.errors import InputError
from odin.keeper import Keeper
from odin.runtime import Runtime, StepRecord
from tests.odin.threads import run_ranks

WORDS = ["scene=rooms?views=16&width=48&height=36&points=400", "test_every=0", "steps=100", "densify_at=[40]"]
EVERY = 20


class Stop(Exception):
    pass


@pytest.fixture(scope="module")
def workload() -> Workload:
    return load_workload(load([*WORDS, "reset_at=[70]", "sh_at=[10,30]"]))


def train(workload: Workload, arm: str, path: Path, stop: int | None = None) -> list[Runtime]:
    plan = checkpointed_plan(workload, ARMS[arm], EVERY)

    def main(transport: object) -> Runtime:
        runtime, first = start_or_resume(workload, plan, ARMS[arm], transport, Keeper(), path)
        save = saver(workload, runtime, plan, EVERY, path)

        def on_step(record: StepRecord) -> None:
            save(record)
            if record.step + 1 == stop:
                raise Stop

        transport.barrier()
        runtime.run(first, on_step)
        return runtime

    return run_ranks(2, main)[0]


@pytest.mark.xdist_group("exact")
@pytest.mark.parametrize("arm", ["barrier-planned", "quality", "predicted"])
def test_resume_equals_the_uninterrupted_run(workload: Workload, arm: str, tmp_path: Path) -> None:
    whole = train(workload, arm, tmp_path / "whole.npz")
    with pytest.raises(Stop):
        train(workload, arm, tmp_path / "cut.npz", stop=60)
    resumed = train(workload, arm, tmp_path / "cut.npz")
    assert [r.step for r in resumed[0].records] == list(range(60, 100))
    digests = {r.recipe.table.digest() for r in (*whole, *resumed)}
    assert len(digests) == 1
    assert resumed[0].recipe.degree == whole[0].recipe.degree == 2


def test_a_checkpoint_of_another_scene_or_seed_is_refused(workload: Workload, tmp_path: Path) -> None:
    path = tmp_path / "c.npz"
    with pytest.raises(Stop):
        train(workload, "quality", path, stop=20)
    other = Workload(config=load([*WORDS, "seed=1"]), capture=workload.capture)
    with pytest.raises(InputError, match="made with"):
        train(other, "quality", path)
