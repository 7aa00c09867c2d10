"""Compilation of the kernels that most tests run, each by one worker only.

On a fresh machine that is a minute and a half of one core; two workers that start alike would both spend it.
"""

from __future__ import annotations

import os
from pathlib import Path

from filelock import FileLock

SCENE = "rooms?views=16&width=64&height=48&points=600"


def planner() -> None:
    """A plan, by which an epoch is annealed, and the kernels of tables and slots."""
    from harness.config import load
    from harness.run.workload import load_workload
    from odin.arms import arm
    from odin.warm import warm_up_rows

    warm_up_rows()
    load_workload(load([f"scene={SCENE}", "ranks=2", "steps=12", "link=none"])).plan(arm("quality"))


def gaussians() -> None:
    """Renderer, scopes and hazard pass."""
    from pipelines.render.cpu import warm_up

    warm_up()


def surfels() -> None:
    """The renderer of 2DGS."""
    from pipelines.render.surfels import warm_up_surfels

    warm_up_surfels()


def compile_together(worker: int) -> None:
    """Worker 0 starts with what takes longest, worker 1 with the rest; what the other has at hand is waited for, and
    then read from the cache."""
    cache = Path(os.environ["NUMBA_CACHE_DIR"])
    cache.mkdir(parents=True, exist_ok=True)
    for make in ((gaussians, planner, surfels), (planner, surfels, gaussians))[worker % 2]:
        with FileLock(cache / f"{make.__name__}.lock"):
            make()
