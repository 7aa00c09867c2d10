"""`odin-bench train` and `odin-bench evaluate`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from filelock import Timeout

from harness.catalog.manifests import enforce_scene
from harness.config import Config, load
from harness.progress import Progress
from harness.run.headline import Teller, scratch
from harness.run.launch import launch
from harness.run.spec import RunSpec
from harness.run.workload import load_workload
from harness.store.files import write_text
from harness.store.store import CellStore
from harness.train.evaluate import evaluated
from harness.train.folder import TrainingFolder
from harness.train.order import Order
from odin.arms import arm as arm_named
from odin.errors import InputError, RunError
from odin.planner.stream import check_batch

# Nothing is timed, so nothing is shaped or padded.
UNTIMED = ("padded=false", "link=none", "mirrored=false")


def train(words: Sequence[str], *, every: int, stop: int | None) -> int:
    """Train one arm, or go on with it from its newest checkpoint; 0 when it has ended, or stopped as asked.

    Raises InputError for what cannot be trained so, RunError when ranks fail; what was saved stays.
    """
    config = load([*UNTIMED, *words])
    _check(config, every, stop)
    workload = load_workload(config, progress=_say)
    check_batch(len(workload.capture.train), config.engine.ranks, config.engine.views_per_unit, config.scale.steps)
    scene = config.scene
    if not scene.procedural:
        enforce_scene(scene.path, scene.images, scene.test_every, workload.capture.manifest)
    store = CellStore(Path(config.out))  # which checks that it can be written
    folder = TrainingFolder.of(config, every, workload.capture.name, workload.capture.manifest)
    folder.path.mkdir(parents=True, exist_ok=True)
    try:
        with folder.lock().acquire(timeout=0):
            _train(config, folder, store, every, stop)
    except Timeout as error:
        raise InputError(f"Another process is training {folder.path}. Wait for it, or train something else.") from error
    return 0


def _train(config: Config, folder: TrainingFolder, store: CellStore, every: int, stop: int | None) -> None:
    finished = folder.finished()
    if finished is None:
        folder.sweep()
        for version in folder.begin(config, every):
            _say(f"Steps before the checkpoint were trained by other code ({version[:12]}); bits may depend on it.")
        _run(config, folder, store, every, stop)
        finished = folder.finished()
    else:
        by = f", in part by other code ({', '.join(v[:12] for v in others)})" if (others := folder.other_code()) else ""
        _say(f"This training has ended{by}; remove its folder to train again.")
    if finished is None:
        print(f"Stopped at a checkpoint of {config.scale.steps} steps; the same command without --stop goes on.")
    else:
        print(finished.line(config))
    print(f"Training: {folder.path}")


def _run(config: Config, folder: TrainingFolder, store: CellStore, every: int, stop: int | None) -> None:
    place = scratch(store)
    spec = RunSpec(
        config=config, cells=((config.study.arms[0], 0),), folder=place.resolve(), module="harness.train.rank"
    )
    Order(folder=str(folder.path.resolve()), every=every, stop=stop).save(spec)
    with Progress(config.scale.steps, "start") as progress:
        teller = Teller(progress, config.scale.steps, {})
        try:
            launch(spec, teller)
        except RunError as error:
            saved = folder.checkpoint()
            on = f"the same command goes on from {saved.name}" if saved else "no checkpoint had been written"
            raise RunError(f"{error} In {folder.path}: {on}.") from error
    shutil.rmtree(place, ignore_errors=True)


def evaluate(path: Path) -> int:
    """Judge the newest checkpoint of a training on one rank, however many wrote it, and keep it in evaluation.json.

    Raises InputError where there is none, a part of it is missing, or its scene is no longer what it was.
    """
    folder = TrainingFolder(path)
    config = folder.config()
    found = evaluated(folder, load_workload(config, progress=_say))
    write_text(folder.path / "evaluation.json", found.document())
    print(found.line(config))
    return 0


def _check(config: Config, every: int, stop: int | None) -> None:
    steps = config.scale.steps
    if len(config.study.arms) != 1:
        raise InputError(
            f"A training has one arm; {len(config.study.arms)} are named ({', '.join(config.study.arms)}). Name one, "
            "as in arms=quality; odin-bench arms lists them."
        )
    arm_named(config.study.arms[0])
    if config.engine.padded or config.link.shaped or config.faults:
        raise InputError(
            "A training is not timed: padded=, link= and faults= belong to cells (reproduce headline, run). Leave them "
            "out."
        )
    if not 1 <= every <= steps:
        raise InputError(f"--every {every}: checkpoints come every 1 to {steps} steps (steps={steps}).")
    if stop is not None and (stop % every or not every <= stop <= steps):
        raise InputError(
            f"--stop {stop}: training stops at a checkpoint, which come every {every} steps up to {steps}. Choose a "
            "multiple, or another --every."
        )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
