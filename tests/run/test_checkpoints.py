"""Resume equals the uninterrupted run bit for bit: densify at 40, stop at 60, resume to 100."""

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
from odin.runtime import Runtime, StepRecord
from pipelines.checkpoint import load as load_checkpoint
from pipelines.checkpoint import save
from tests.odin.threads import run_ranks

WORDS = ["scene=rooms?views=16&width=48&height=36&points=400", "test_every=0", "steps=100", "densify_at=[40]"]
EVERY = 20


class Stop(Exception):
    pass


@pytest.fixture(scope="module")
def workload() -> Workload:
    return load_workload(load([*WORDS, "reset_at=[70]", "sh_at=[10,30]"]))


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
    """Stopped after the checkpoint at 60, and resumed from it."""
    with pytest.raises(Stop):
        train(workload, name, path, stop=60)
    resumed = train(workload, name, path)
    assert [r.step for r in resumed[0].records] == list(range(60, 100))
    return resumed


def digests(*runs: list[Runtime]) -> set[str]:
    return {runtime.recipe.table.digest() for run in runs for runtime in run}


@pytest.mark.xdist_group("exact")
@pytest.mark.parametrize("name", NAMES)
def test_resume_equals_the_uninterrupted_run(workload: Workload, name: str, tmp_path: Path) -> None:
    whole = train(workload, name, tmp_path / "whole.npz")
    resumed = interrupted(workload, name, tmp_path / "cut.npz")
    assert len(digests(whole, resumed)) == 1
    assert resumed[0].recipe.degree == whole[0].recipe.degree == 2
    windows = [w for w in whole[0].publication.windows if w.step >= 60]
    assert resumed[0].publication.windows == windows


@pytest.mark.parametrize("name", ["throughput"])
def test_without_its_evidence_a_resumed_run_differs(workload: Workload, name: str, tmp_path: Path) -> None:
    """The test above can fail."""
    whole, path = train(workload, name, tmp_path / "whole.npz"), tmp_path / "cut.npz"
    with pytest.raises(Stop):
        train(workload, name, path, stop=60)
    save(path, replace(load_checkpoint(path), evidence=None))
    assert len(digests(whole, train(workload, name, path))) == 2


def test_a_failed_audit_is_remembered(workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Step 45 is audited and fails; until the reset after 70 reads are waited for, in the resumed run too."""
    monkeypatch.setattr("odin.audit.AUDIT_LIMIT", -1.0)
    name = "predicted:audit=45"
    whole = train(workload, name, tmp_path / "whole.npz")
    resumed = interrupted(workload, name, tmp_path / "cut.npz")
    assert len(digests(whole, resumed)) == 1
    windows = {w.step: w for w in resumed[0].publication.windows}
    assert windows[61].hazards is not None and windows[75].hazards is None
    assert list(windows.values()) == [w for w in whole[0].publication.windows if w.step >= 60]


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
        train(workload, "quality", tmp_path / "c.npz", stop=20)
    with pytest.raises(InputError, match="made with arm 'quality'"):
        train(workload, "throughput", tmp_path / "c.npz")


def test_a_checkpoint_of_another_scene_or_seed_is_refused(workload: Workload, tmp_path: Path) -> None:
    path = tmp_path / "c.npz"
    with pytest.raises(Stop):
        train(workload, "quality", path, stop=20)
    other = Workload(config=load([*WORDS, "seed=1"]), capture=workload.capture)
    with pytest.raises(InputError, match="made with"):
        train(other, "quality", path)
