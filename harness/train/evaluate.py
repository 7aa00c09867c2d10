"""A checkpoint's model on one rank, and how good it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.run.checkpoints import require_own
from harness.run.collect import quality_of
from harness.run.execute import render_views
from harness.run.shards import restored
from harness.run.workload import Workload
from harness.train.folder import TrainingFolder
from harness.train.judged import Judged
from odin.errors import InputError
from pipelines.checkpoint import load


def judged(workload: Workload, recipe: Any, step: int, shards: int = 0) -> Judged:
    """The recipe's model after so many steps."""
    quality = quality_of(render_views(recipe, workload), workload, with_ssim=True)
    state = recipe.table.digest()
    return Judged(step=step, primitives=len(recipe.table), quality=quality, state=state, shards=shards)


def evaluated(folder: TrainingFolder, workload: Workload) -> Judged:
    """The newest checkpoint's model. Raises InputError where there is no checkpoint, or it is not whole."""
    source = folder.checkpoint()
    if source is None:
        raise InputError(f"{folder.path} has no checkpoint yet. Train longer, or with a smaller --every.")
    if not source.is_dir():
        return judged(workload, *_replicated(workload, source))
    return judged(workload, *restored(workload, source), shards=len(list(source.glob("owner-*"))))


def _replicated(workload: Workload, source: Path) -> tuple[Any, int]:
    checkpoint = load(source)
    require_own(source, checkpoint.header, workload)
    recipe = workload.recipe()
    recipe.restore(checkpoint, first_rank=True)
    return recipe, checkpoint.header.next_step
