"""Scenes and steps with nothing to learn from: training goes on, or ends in one paragraph that says why."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch

from harness.config import load
from harness.run.execute import Executed, execute
from harness.run.together import run_threads
from harness.run.workload import Workload, load_workload
from odin.arms import arm
from odin.comm.link import UNSHAPED
from odin.errors import RunError
from odin.keeper import Keeper
from pipelines.reference.registry import FAMILIES
from tests.acceptance.bench import Bench, assert_refused, assert_trained
from tests.scenes.toy_scene import toy_model, write_toy_scene

EVENTS = ["steps=12", "densify_at=[5]", "reset_at=[]", "sh_at=[3]"]
each = pytest.mark.parametrize("name", sorted(FAMILIES))


@cache
def workload(name: str) -> Workload:
    words = [f"pipeline={name}", "test_every=0", "ranks=2", "views_per_unit=1", *EVENTS]
    with TemporaryDirectory() as folder:
        write_toy_scene(Path(folder))
        return load_workload(load([f"scene={folder}", *words]))


def train(work: Workload, arm_name: str = "quality", spoil: Any = None) -> list[Executed]:
    """Two ranks to the end; `spoil` may change a rank's recipe before it starts."""

    def rank(transport: Any) -> Executed:
        recipe = work.recipe()
        if spoil is not None:
            spoil(recipe, transport.rank)
        return execute(work, arm(arm_name), transport, Keeper(), recipe=recipe)

    return run_threads(2, UNSHAPED, rank)


def turned_away(work: Workload) -> Workload:
    """The same scene with every point behind every camera."""
    away = np.array([0.0, 0.0, -1000.0])
    cameras = tuple(replace(camera, translation=camera.translation + away) for camera in work.capture.cameras)
    return replace(work, capture=replace(work.capture, cameras=cameras))


@each
def test_views_that_see_nothing_train_and_move_nothing(name: str) -> None:
    work = turned_away(workload(name))
    first, second = train(work, "predicted" if FAMILIES[name].sharded else "throughput")
    assert first.recipe.table.digest() == second.recipe.table.digest()
    assert np.isfinite([record.loss for record in first.records]).all()
    assert np.isfinite(first.recipe.table.values()).all() and len(first.recipe.table) > 0


# TamingGS draws half of what 3DGS would prune, so it never prunes all.
@pytest.mark.parametrize("name", sorted(set(FAMILIES) - {"taminggs"}))
def test_pruning_everything_is_an_error_that_says_so(name: str) -> None:
    work = workload(name)

    def spoil(recipe: Any, rank: int) -> None:
        recipe.settings = replace(recipe.settings, min_opacity=0.999)

    with pytest.raises(RunError, match=r"Densification pruned all \d+ primitives"):
        train(work, spoil=spoil)


def spoiled(function: str, value: Any) -> Any:
    """Makes a function of rank 1's recipe return another value from its fourth call on."""

    def spoil(recipe: Any, rank: int) -> None:
        if rank != 1:
            return
        original, calls = getattr(recipe, function), []

        def broken(*given: Any) -> Any:
            calls.append(1)
            result = original(*given)
            return value(result) if len(calls) >= 4 else result

        setattr(recipe, function, broken)

    return spoil


def test_a_loss_that_is_no_number_ends_the_run_at_its_step() -> None:
    with pytest.raises(RunError, match=r"diverged: the loss of step 3 over training views .* is nan"):
        train(workload("3dgs"), "barrier-planned", spoiled("render", lambda loss: float("nan")))


def nan_like(gradient: Any) -> Any:
    return (
        torch.full_like(gradient, torch.nan) if isinstance(gradient, torch.Tensor) else np.full_like(gradient, np.nan)
    )


@pytest.mark.parametrize("arm_name", ["barrier-planned", "quality", "predicted"])
def test_a_gradient_that_is_no_number_ends_the_run(arm_name: str) -> None:
    with pytest.raises(RunError, match="Training has diverged"):
        train(workload("3dgs"), arm_name, spoiled("backward_geometry", nan_like))


def test_one_view_trains(bench: Bench, tmp_path: Path) -> None:
    model = toy_model(views=1, points=60)
    write_toy_scene(tmp_path / "scene", model)
    assert_trained(bench.reproduce(tmp_path / "scene", "views_per_unit=1", "densify_at=[4]"))


def test_fewer_views_than_a_step_is_refused_before_it_starts(bench: Bench, tmp_path: Path) -> None:
    write_toy_scene(tmp_path / "scene", toy_model(views=3, points=60))
    ended = bench.reproduce(tmp_path / "scene", "ranks=2", "views_per_unit=2")
    assert_refused(ended, "A step needs 4 different views", "there are 3 training views", "fewer ranks")
    assert "compile" not in ended.err
