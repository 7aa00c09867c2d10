"""pipeline=grendel through the harness: both engines, records, checkpoints of shards, one PLY."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from harness.cli import main
from harness.config import load
from harness.run.checkpoints import checkpointed_plan
from harness.run.shards import COMPLETE, merged, newest, owner_file, shard_saver, start_or_resume_shard
from harness.run.together import run_threads
from harness.run.workload import Workload, load_workload
from harness.store.schema import Result
from harness.store.store import MODEL, CellStore
from odin.arms import arm as arm_named
from odin.comm.link import UNSHAPED
from odin.errors import InputError
from odin.keeper import Keeper
from odin.mixed.owners import Owners
from pipelines.checkpoint import load as load_checkpoint
from pipelines.export import read_ply
from pipelines.reference.grendel import GrendelSplatting

TINY = "rooms?views=24&width=64&height=48&points=600"
WORDS = [f"scene={TINY}", "pipeline=grendel", "ranks=2", "views_per_unit=1"]
WORDS += ["densify_at=[5]", "reset_at=[]", "sh_at=[3]"]


def records(out: Path) -> dict[str, Result]:
    store = CellStore(out)
    found = [store.read_result(path.parent.name) for path in (out / "cells").glob("*/result.json")]
    return {result.cell.arm: result for result in found}


def reproduce(out: Path, arms: str, *words: str) -> dict[str, Result]:
    main(["reproduce", "headline", *WORDS, *words, f"arms=[{arms}]", "steps=9", "mirrored=false", f"out={out}"])
    return records(out)


def test_both_engines_train_shards_and_record_what_they_exchange(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arms = "barrier,barrier-planned,quality,predicted"
    virtual = reproduce(tmp_path / "virtual", arms, "engine=virtual")
    assert "hidden-publish" in capsys.readouterr().out
    process = reproduce(tmp_path / "process", "barrier-planned,quality", "padded=false", "link=none")
    measured = {name: result.measurement for name, result in virtual.items()}
    assert measured["quality"].final_digest == measured["barrier-planned"].final_digest
    assert measured["predicted"].final_digest != measured["quality"].final_digest
    for name in ("barrier-planned", "quality"):
        assert process[name].measurement.final_digest == measured[name].final_digest
        assert process[name].cell.label.value == "measured"
    exchange = measured["predicted"].exchange
    assert exchange.shards == 2 and exchange.extra_bytes > 0
    assert exchange.publish.hidden.value > measured["barrier"].exchange.publish.hidden.value
    rows = measured["quality"].primitives.final
    assert [one.step for one in exchange.redistributed] == [4]
    assert exchange.owner_bytes < 0.6 * 4 * 59 * 4 * rows, "an owner holds more than its shard"
    model = CellStore(tmp_path / "virtual").path(virtual["quality"].cell_id) / MODEL
    assert read_ply(model).shape == (rows, 59)


@pytest.fixture(scope="module")
def workload() -> Workload:
    return load_workload(load([*WORDS, "engine=virtual", "steps=12", "test_every=0"]))


@pytest.fixture(scope="module")
def in_bands() -> Workload:
    words = ["engine=virtual", "steps=12", "test_every=0", "balance=state", "redistribute_every=0"]
    return load_workload(load([*WORDS, *words]))


def run(workload: Workload, arm: str, folder: Path, *, until: int | None = None) -> np.ndarray:
    """Parameters of all shards after training from the newest checkpoint, stopped after `until` steps."""
    chosen = arm_named(arm)
    plan = checkpointed_plan(workload, chosen, 4)

    class Stopped(Exception):
        pass

    def rank(transport: object) -> GrendelSplatting:
        keeper = Keeper()
        runtime, start = start_or_resume_shard(workload, plan, chosen, transport, keeper, folder)
        save = shard_saver(workload, runtime, plan, 4, folder)

        def on_step(record: object) -> None:
            save(record)
            if record.step + 1 == until:
                raise Stopped

        runtime.run(start, on_step)
        return runtime.recipe.whole(Owners(transport, keeper))

    try:
        return run_threads(2, UNSHAPED, rank)[0].table.values()
    except Stopped:
        return np.zeros(0)


@pytest.mark.parametrize("arm", ["quality", "throughput"])
def test_a_resumed_run_trains_the_same_bits(workload: Workload, tmp_path: Path, arm: str) -> None:
    whole = run(workload, arm, tmp_path / "whole")
    run(workload, arm, tmp_path / "parts", until=9)
    found = newest(tmp_path / "parts")
    assert found is not None and found.name == "step-000008"
    assert merged(found).parameters.shape == whole.shape
    assert run(workload, arm, tmp_path / "parts").tobytes() == whole.tobytes()


def test_a_resumed_run_knows_costs_and_owners(in_bands: Workload, tmp_path: Path) -> None:
    whole = run(in_bands, "quality", tmp_path / "whole")
    run(in_bands, "quality", tmp_path / "parts", until=9)
    found = newest(tmp_path / "parts")
    assert found is not None
    parts = [load_checkpoint(owner_file(found, rank, 2)) for rank in range(2)]
    assert (parts[0].costs > 0).any(), "no costs are kept"
    assert parts[0].ids.max() > parts[1].ids.min(), "owners hold adjacent rows: nothing is tested"
    assert sorted(np.concatenate([part.ids for part in parts])) == list(range(len(merged(found).parameters)))
    assert run(in_bands, "quality", tmp_path / "parts").tobytes() == whole.tobytes()


def test_only_whole_checkpoints_of_this_run_are_resumed(workload: Workload, tmp_path: Path) -> None:
    run(workload, "quality", tmp_path, until=5)
    found = newest(tmp_path)
    assert found is not None
    with pytest.raises(InputError, match="was made with arm"):
        run(workload, "predicted", tmp_path)
    owner_file(found, 1, 2).unlink()
    with pytest.raises(InputError, match="all of them"):
        merged(found)
    with pytest.raises(InputError, match="no rows for owner 1"):
        run(workload, "quality", tmp_path)
    (found / COMPLETE).unlink()
    assert newest(tmp_path) is None


def test_the_newest_checkpoint_is_that_of_the_largest_step(tmp_path: Path) -> None:
    assert newest(tmp_path) is None
    for name in ("step-999995", "step-1000000", "step-000005", "step-x", "step-0000020.tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / COMPLETE).touch()
    assert newest(tmp_path) == tmp_path / "step-1000000"


def test_shards_of_two_checkpoints_are_no_model(workload: Workload, tmp_path: Path) -> None:
    run(workload, "quality", tmp_path / "a", until=5)
    run(workload, "quality", tmp_path / "b", until=9)
    old, new = newest(tmp_path / "a"), newest(tmp_path / "b")
    assert old is not None and new is not None and merged(new).header.next_step == 8
    shutil.copy(owner_file(old, 1, 2), owner_file(new, 1, 2))
    with pytest.raises(InputError, match="shards of different models"):
        merged(new)
    shutil.copy(owner_file(new, 0, 2), owner_file(old, 1, 2))
    shutil.copy(owner_file(new, 0, 2), owner_file(old, 0, 2))
    with pytest.raises(InputError, match="shards of different models"):
        merged(old)
    shutil.copy(owner_file(new, 0, 2), new / "owner-0-of-3.npz")
    with pytest.raises(InputError, match="a model needs all of them"):
        merged(new)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["arms=[barrier,paper-quality]"], "mixed parallelism"),
        (["optimizer=selective"], "pipeline.optimizer"),
        (["lr_scale=linear"], "pipeline.lr_scale"),
        (["balance=pixels"], "pipeline.balance"),
        (["redistribute_every=-1"], "pipeline.redistribute_every"),
        (["redistribute_above=0.5"], "pipeline.redistribute_above"),
    ],
)
def test_what_shards_cannot_do_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load([*WORDS, *words])
