"""A fork's own `training()`, its names rebound from outside: given views, recorded losses, keyed draws, no GPU calls.

Nothing of what it computes is touched. Its structural methods draw from the generators that our loop seeds for the same
event, because two loops cannot draw the same noise otherwise.
"""

from __future__ import annotations

import contextlib
import functools
import random
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from pipelines.adapters.draws import drawn_from
from pipelines.adapters.grendel import GROUPS, prepared
from pipelines.adapters.modules import Fork
from pipelines.adapters.shim.device import no_gpu
from pipelines.adapters.staging import staged, view_number
from pipelines.adapters.taming import COEFFICIENTS, EmptyDraws
from pipelines.capture import Capture
from pipelines.reference.settings import Settings

LOOPS = {"dashgs": "train_dash", "grendel": "train_internal"}  # the module with `training`, where it is not `train`
STRUCTURAL = ("densify_and_prune", "densify_with_score", "prune_and_densify")


@dataclass
class Trained:
    """What upstream's loop did: the loss of each step, and how many rows there were in it."""

    losses: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)


class Order:
    """In the place of `randint`: the position of the view that is due, in the stack that upstream pops it from."""

    def __init__(self, order: list[int]) -> None:
        self.order, self.step, self.scene = order, 0, None
        self.left: list[int] = []

    def __call__(self, low: int, high: int) -> int:
        if not self.left:
            self.left = [view_number(camera.image_name) for camera in self.scene.getTrainCameras()]
        assert high == len(self.left) - 1, "upstream's stack has another size"
        place = self.left.index(self.order[min(self.step, len(self.order) - 1)]) if self.step < len(self.order) else 0
        self.step += 1
        self.left.pop(place)
        return place


class SampledViews:
    """In the place of the module `random` in TamingGS's loop, which samples views to score with it."""

    def __init__(self, seed: int, count: int) -> None:
        self.seed, self.count, self.drawn = seed, count, 0

    def randint(self, low: int, high: int) -> int:
        if self.drawn % self.count == 0:
            version = 1 + self.drawn // self.count
            key = np.random.SeedSequence([self.seed, 0xF0, version]).generate_state(1)
            self._random = random.Random(int(key[0]))
        self.drawn += 1
        return self._random.randint(low, high)


def keyed(original: Callable[..., Any], seed: int) -> Callable[..., Any]:
    """A structural method that draws from (seed, how often it has been called)."""
    calls = [0]

    @functools.wraps(original)
    def method(*given: Any, **named: Any) -> Any:
        calls[0] += 1
        with drawn_from(seed, calls[0]), EmptyDraws():
            return original(*given, **named)

    return method


def train_upstream(
    fork: Fork, pipeline: str, capture: Capture, settings: Settings, order: list[int], steps: int
) -> Trained:
    """Run upstream's loop for `steps` steps of one view. settings: those of our loop."""
    seen, views = Trained(), Order(order)
    loop = fork.module(LOOPS.get(pipeline, "train"))
    model = fork.module("scene").GaussianModel
    kept = {name: getattr(model, name) for name in STRUCTURAL if hasattr(model, name)}
    scene_class = loop.Scene

    def scene(*given: Any, **named: Any) -> Any:
        views.scene = scene_class(*given, **named)
        return views.scene

    def report(_: Any, iteration: int, __: Any, loss: Any, *___: Any) -> None:
        if iteration <= steps:
            seen.losses.append(float(loss.detach()))
            seen.rows.append(len(views.scene.gaussians.get_xyz))

    loop.randint, loop.Scene, loop.training_report = views, scene, report
    if pipeline == "grendel":
        _prepare_grendel(fork, loop, seen, views, steps)
    viewer = SimpleNamespace(conn=None, try_connect=lambda *_: None)
    loop.network_gui, loop.TENSORBOARD_FOUND = viewer, False
    if pipeline == "taminggs":
        loop.random = SampledViews(settings.seed, settings.score_views)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        try:
            for name, original in kept.items():
                setattr(model, name, keyed(original, settings.seed))
            with drawn_from(settings.seed, 0), fork.device(), no_gpu():
                _train(fork, loop, pipeline, capture, settings, steps, folder)
        finally:
            for name, original in kept.items():
                setattr(model, name, original)
            loop.Scene = scene_class
    return seen


def _prepare_grendel(fork: Fork, loop: Any, seen: Trained, views: Order, steps: int) -> None:
    """Its views come from a data set, its losses go back there, and it asks a GPU how much memory is left."""
    prepared(fork).check_memory_usage = lambda *_, **__: None
    loop.training_report = lambda *_, **__: None

    class Planned(loop.SceneDataset):
        def get_batched_cameras(self, count: int) -> list[Any]:
            assert count == 1
            view = views.order[min(views.step, len(views.order) - 1)]
            views.step += 1
            return [next(one for one in self.cameras if view_number(one.image_name) == view)]

        def update_losses(self, losses: Any) -> None:
            if len(seen.losses) < steps:
                seen.losses.append(float(losses[0]))
                seen.rows.append(len(views.scene.gaussians.get_xyz))

    loop.SceneDataset = Planned


def _train_grendel(fork: Fork, loop: Any, words: list[str], settings: Any) -> None:
    shared, alien = prepared(fork), words.index("-r")
    words = [*words[:alien], *words[alien + 4 :]]
    scale = "sqrt" if settings.lr_scale == "sqrt" else "accumu"
    *options, every = fork.options([*words, "--bsz", "1", "--lr_scale_mode", scale], GROUPS)
    every.multiprocesses_image_loading = False
    every.test_iterations, every.save_iterations, every.checkpoint_iterations = [], [], []
    fork.module("arguments").init_args(every)
    loop.training(*options, every, shared.get_log_file())


def _train(fork: Fork, loop: Any, pipeline: str, capture: Capture, settings: Any, steps: int, folder: str) -> None:
    schedule = {
        "iterations": steps + 1,
        "densify_from_iter": settings.densify_from,
        "densify_until_iter": settings.densify_until,
        "densification_interval": settings.densification_interval,
        "lambda_dssim": settings.lambda_dssim,
    }
    if pipeline == "2dgs":
        schedule |= {"lambda_normal": settings.lambda_normal, "lambda_dist": settings.lambda_dist}
    words = [
        "-s",
        str(staged(capture, settings)),
        "-m",
        folder,
        "-r",
        "1",
        "--data_device",
        "cpu",
    ]
    words += [part for name, value in schedule.items() for part in (f"--{name}", str(value))]
    if pipeline == "dashgs":
        words += ["--resolution_mode", "freq", "--densify_mode", "freq"]
    if pipeline == "grendel":
        _train_grendel(fork, loop, words, settings)
        return
    *options, _ = fork.options(words)
    if pipeline == "taminggs":
        more = Namespace(
            budget=settings.primitive_budget,
            mode=settings.budget_mode,
            cams=settings.score_views,
            ho_iteration=15_000,
            sh_lower=True,
            benchmark_dir=None,
        )
        loop.training(*options, [], [], [], None, -1, False, COEFFICIENTS, more)
    elif pipeline == "2dgs":
        loop.training(*options, [], [], [], None)
    else:
        loop.training(*options, [], [], [], None, -1)
