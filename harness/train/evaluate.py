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
from odin.errors import InputError
from pipelines.checkpoint import load


def judged(workload: Workload, recipe: Any) -> dict[str, Any]:
    """What is known of a model: primitives, test quality, and a digest of parameters, moments and counter."""
    quality = quality_of(render_views(recipe, workload), workload, with_ssim=True)
    return {
        "primitives": len(recipe.table),
        "quality": quality.model_dump(mode="json"),
        "state": recipe.table.digest(),
    }


def evaluated(folder: TrainingFolder, workload: Workload) -> dict[str, Any]:
    """`judged`, of the newest checkpoint, with its step and the number of its shards (0: it has none).

    Raises InputError where there is no checkpoint, or it is not whole.
    """
    source = folder.checkpoint()
    if source is None:
        raise InputError(f"{folder.path} has no checkpoint yet. Train longer, or with a smaller --every.")
    shards = len(list(source.glob("owner-*"))) if source.is_dir() else 0
    recipe, step = restored(workload, source) if shards or source.is_dir() else _replicated(workload, source)
    return {"step": step, "shards": shards, **judged(workload, recipe)}


def _replicated(workload: Workload, source: Path) -> tuple[Any, int]:
    checkpoint = load(source)
    require_own(source, checkpoint.header, workload)
    recipe = workload.recipe()
    recipe.restore(checkpoint, first_rank=True)
    return recipe, checkpoint.header.next_step
