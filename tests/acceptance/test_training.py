"""A6–A8: a stop between densification and the end, a split without test views, shards evaluated on one rank."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.config import load
from harness.measure.quality import Quality, view_quality
from harness.run.checkpoints import checkpointed_plan, saver, start_or_resume
from harness.run.shards import newest, owner_file, restored, shard_saver, start_or_resume_shard
from harness.run.together import run_threads
from harness.run.workload import Workload, load_workload
from odin.arms import arm
from odin.comm.link import UNSHAPED
from odin.errors import InputError
from odin.keeper import Keeper
from odin.mixed.owners import Owners
from tests.acceptance.bench import Bench, assert_trained
from tests.scenes.toy_scene import write_toy_scene


class Stop(Exception):
    """Training ends here."""


def workload(scene: Path, *words: str) -> Workload:
    return load_workload(load([f"scene={scene}", "test_every=0", "ranks=2", "views_per_unit=1", *words]))


def quality(recipe: Any, work: Workload) -> Quality:
    """Of all views, the training ones: the fixture has no others."""
    views = zip(work.capture.cameras, work.capture.images, strict=True)
    return Quality.of([view_quality(camera.name, recipe.image(camera), photo) for camera, photo in views])


# A6 ------------------------------------------------------------------------------------------------------------------

EVERY, STOPPED, STEPS = 20, 60, 100


class Run:
    """What one rank saw: its runtime and the learning rates of every step."""

    def __init__(self, work: Workload, transport: Any, path: Path, stop: int | None) -> None:
        chosen = arm("quality")
        plan = checkpointed_plan(work, chosen, EVERY)
        self.runtime, first = start_or_resume(work, plan, chosen, transport, Keeper(), path)
        self.recipe, self.rates = self.runtime.recipe, dict[int, bytes]()
        rates_of = self.recipe.learning_rates

        def seen(step: int) -> np.ndarray:
            rates = rates_of(step)
            self.rates[step] = np.asarray(rates).tobytes()
            return rates

        self.recipe.learning_rates = seen
        keep = saver(work, self.runtime, plan, EVERY, path)

        def on_step(record: Any) -> None:
            keep(record)
            if record.step + 1 == stop:
                raise Stop

        transport.barrier()
        self.runtime.run(first, on_step)


def test_a6_a_resumed_run_ends_like_one_that_was_not_stopped(tmp_path: Path) -> None:
    write_toy_scene(tmp_path / "scene")
    work = workload(tmp_path / "scene", f"steps={STEPS}", "densify_at=[40]", "reset_at=[]", "sh_at=[30,70]")

    def train(path: Path, stop: int | None = None) -> list[Run]:
        return run_threads(2, UNSHAPED, lambda transport: Run(work, transport, path, stop))

    whole = train(tmp_path / "whole.npz")
    with pytest.raises(Stop):
        train(tmp_path / "cut.npz", STOPPED)
    resumed = train(tmp_path / "cut.npz")
    for before, after in zip(whole, resumed, strict=True):
        assert [r.step for r in after.runtime.records] == list(range(STOPPED, STEPS))
        assert after.rates == {step: rates for step, rates in before.rates.items() if step >= STOPPED}
        assert len(set(after.rates.values())) > 30, "learning rates do not change, so nothing is tested"
        a, b = before.recipe.table, after.recipe.table
        assert len(b) != len(work.recipe().table), "nothing was densified"
        assert a.t == b.t > STOPPED
        for part in ("p", "m", "v"):
            np.testing.assert_array_equal(getattr(a.moments, part), getattr(b.moments, part))
        assert a.digest() == b.digest()
    assert quality(whole[0].recipe, work) == quality(resumed[0].recipe, work)


# A7 ------------------------------------------------------------------------------------------------------------------


NAN = re.compile(r"\bnan\b", re.IGNORECASE)


def numbers(value: Any) -> list[float]:
    """All numbers of a JSON value."""
    if isinstance(value, dict | list):
        return [n for one in (value.values() if isinstance(value, dict) else value) for n in numbers(one)]
    return [value] if isinstance(value, float) else []


def test_a7_no_test_views_is_said_everywhere_and_is_no_number(bench: Bench, tmp_path: Path) -> None:
    write_toy_scene(tmp_path / "scene")
    ended = bench.reproduce(tmp_path / "scene", "arms=[barrier]")
    record = assert_trained(ended)
    reason = "n/a: no test views"
    final = record.measurement.quality_final
    assert (final.psnr.reason, final.ssim.reason, record.measurement.lpips.state) == (reason,) * 3
    text = (bench.folder / "cells" / record.cell_id / "result.json").read_text(encoding="utf-8")
    assert all(math.isfinite(n) for n in numbers(json.loads(text))) and text.count(reason) >= 5
    (folder,) = (bench.folder / "report").iterdir()
    (row,) = csv.DictReader((folder / "headline.csv").read_text(encoding="utf-8").splitlines())
    assert [row[k] for k in ("psnr_initial_db", "psnr_final_db", "psnr_delta_db", "ssim", "lpips")] == [reason] * 5
    assert "Quality on 0 of 1 scenes (n/a: no test views)." in ended.out
    for path in (*folder.glob("*.csv"), *folder.glob("*.md"), *folder.glob("*.txt")):
        assert not NAN.search(path.read_text(encoding="utf-8")), path
    assert not NAN.search(ended.out)


# A8 ------------------------------------------------------------------------------------------------------------------


def test_a8_shards_of_two_ranks_are_the_same_model_on_one(tmp_path: Path) -> None:
    write_toy_scene(tmp_path / "scene")
    words = ["pipeline=grendel", "steps=12", "densify_at=[5]", "reset_at=[]", "sh_at=[3]"]
    two, one = workload(tmp_path / "scene", *words), workload(tmp_path / "scene", *words, "ranks=1")
    chosen = arm("quality")
    plan = checkpointed_plan(two, chosen, 8)
    found: dict[int, tuple[int, Any]] = {}

    def rank(transport: Any) -> None:
        keeper, folder = Keeper(), tmp_path / "shards"
        runtime, first = start_or_resume_shard(two, plan, chosen, transport, keeper, folder)
        keep = shard_saver(two, runtime, plan, 8, folder)

        def on_step(record: Any) -> None:
            keep(record)
            if record.step + 1 == 8:
                whole = runtime.recipe.whole(Owners(transport, keeper))
                found[transport.rank] = len(runtime.recipe.table), whole

        runtime.run(first, on_step)

    run_threads(2, UNSHAPED, rank)
    source = newest(tmp_path / "shards")
    assert source is not None and source.name == "step-000008"
    (model, _), whole = restored(one, source), found[0][1]
    assert len(model.table) == len(whole.table) == sum(rows for rows, _ in found.values())
    assert len(model.table) != 270, "nothing was densified"
    there, here = quality(whole, two), quality(model, one)
    assert abs(there.psnr.value - here.psnr.value) <= 1e-3
    assert abs(there.ssim.value - here.ssim.value) <= 1e-5
    owner_file(source, 1, 2).unlink()
    with pytest.raises(InputError, match="1 of 2 owners; a model needs all of them"):
        restored(one, source)
