"""Resume equals the uninterrupted run bit for bit: densify after 24 steps, stop at 36, reset at 42, end at 60."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch.distributed as dist

from harness.config import load
from harness.run.checkpoints import checkpointed_plan, saver, start_or_resume
from harness.run.workload import Workload, load_workload
from odin.arms import arm
from odin.errors import InputError
from odin.keeper import Keeper
from odin.losses import StepRecord
from odin.runtime import Runtime
from pipelines.checkpoint import load as load_checkpoint
from pipelines.checkpoint import save
from tests.odin.threads import run_ranks

WORDS = ["scene=rooms?views=16&width=48&height=36&points=400", "test_every=0", "steps=60", "densify_at=[24]"]
EVERY, STOP, END = 12, 36, 60


class Stop(Exception):
    pass


@pytest.fixture(scope="module")
def workload() -> Workload:
    return load_workload(load([*WORDS, "reset_at=[42]", "sh_at=[6,18]"]))


def train(workload: Workload, name: str, path: Path, stop: int | None = None) -> list[Runtime]:
    plan = checkpointed_plan(workload, arm(name), EVERY)

    def main(transport: object) -> Runtime:
        runtime, first = start_or_resume(workload, plan, arm(name), transport, Keeper(), path)
        keep = saver(workload, runtime, plan, EVERY, path)

        def on_step(record: StepRecord) -> None:
            keep(record)
            if record.step + 1 == stop:
                raise Stop

        transport.barrier()
        runtime.run(first, on_step)
        return runtime

    return run_ranks(2, main)[0]


NAMES = [
    "barrier", "barrier-planned", "quality", "throughput", "throughput:evidence=local", "throughput:evidence=reduced",
    "paper-literal", "paper-literal:tau=1", "predicted:audit=7",
]  # fmt: skip


def interrupted(workload: Workload, name: str, path: Path) -> list[Runtime]:
    """Stopped after the checkpoint at STOP, and resumed from it."""
    with pytest.raises(Stop):
        train(workload, name, path, stop=STOP)
    resumed = train(workload, name, path)
    assert [r.step for r in resumed[0].records] == list(range(STOP, END))
    return resumed


def digests(*runs: list[Runtime]) -> set[str]:
    return {runtime.recipe.table.digest() for run in runs for runtime in run}


@pytest.mark.parametrize("name", NAMES)
def test_resume_equals_the_uninterrupted_run(workload: Workload, name: str, tmp_path: Path) -> None:
    whole = train(workload, name, tmp_path / "whole.npz")
    resumed = interrupted(workload, name, tmp_path / "cut.npz")
    assert len(digests(whole, resumed)) == 1
    assert resumed[0].recipe.degree == whole[0].recipe.degree == 2
    windows = [w for w in whole[0].publication.windows if w.step >= STOP]
    assert resumed[0].publication.windows == windows


@pytest.mark.parametrize("name", ["throughput"])
def test_without_its_evidence_a_resumed_run_differs(workload: Workload, name: str, tmp_path: Path) -> None:
    """The test above can fail."""
    whole, path = train(workload, name, tmp_path / "whole.npz"), tmp_path / "cut.npz"
    with pytest.raises(Stop):
        train(workload, name, path, stop=STOP)
    save(path, replace(load_checkpoint(path), evidence=None))
    assert len(digests(whole, train(workload, name, path))) == 2


def test_a_failed_audit_is_remembered(workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Step 27 is audited and fails; until the reset after 42 reads are waited for, in the resumed run too."""
    monkeypatch.setattr("odin.audit.AUDIT_LIMIT", -1.0)
    name = "predicted:audit=27"
    whole = train(workload, name, tmp_path / "whole.npz")
    resumed = interrupted(workload, name, tmp_path / "cut.npz")
    assert len(digests(whole, resumed)) == 1
    windows = {w.step: w for w in resumed[0].publication.windows}
    assert windows[37].hazards is not None and windows[45].hazards is None
    assert list(windows.values()) == [w for w in whole[0].publication.windows if w.step >= STOP]


def test_ddp_resumes_as_well(workload: Workload, tmp_path: Path) -> None:
    """Each rank is in DDP of a process group of one; sums go through the transport."""
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    try:
        whole = train(workload, "ddp", tmp_path / "whole.npz")
        assert len(digests(whole, interrupted(workload, "ddp", tmp_path / "cut.npz"))) == 1
    finally:
        dist.destroy_process_group()


def test_a_checkpoint_of_another_arm_is_refused(workload: Workload, tmp_path: Path) -> None:
    """Both follow the plan, but only one has evidence."""
    with pytest.raises(Stop):
        train(workload, "quality", tmp_path / "c.npz", stop=EVERY)
    with pytest.raises(InputError, match="made with arm 'quality'"):
        train(workload, "throughput", tmp_path / "c.npz")


def test_a_checkpoint_of_another_scene_or_seed_is_refused(workload: Workload, tmp_path: Path) -> None:
    path = tmp_path / "c.npz"
    with pytest.raises(Stop):
        train(workload, "quality", path, stop=EVERY)
    other = Workload(config=load([*WORDS, "seed=1"]), capture=workload.capture)
    with pytest.raises(InputError, match="made with"):
        train(other, "quality", path)
