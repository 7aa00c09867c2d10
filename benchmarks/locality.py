"""Share of the primitives that a view keeps under each locality, over a training (§2.1, Fig. 3).

    python -m benchmarks.locality                                                        # rooms, 7,000 images
    python -m benchmarks.locality --scene ../shared/data/bonsai images=images_4

Looks at views spread over the training views at the start, half way, at the end, and once more right after an opacity
reset of that end state. The paper's figure is of 7,000 iterations, which count images in 3DGS, hence 1,750 steps of 4
views. Densification is on. Columns: scene, moment, images, primitives, view, and the three shares.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.gate_window import Training
from benchmarks.view_sets import DEFAULTS, look_at_views, train
from harness.config import load
from harness.run.workload import Workload, load_workload
from odin.arms import arm
from odin.comm.transport import SingleRank
from odin.errors import OdinError
from odin.keeper import Keeper
from odin.recipe import Event
from odin.runtime import RankSum

MOMENTS = ("initial", "mid", "late", "after a reset")
CSV_COLUMNS = ["scene", "moment", "images", "primitives", "view", "geometry", "computation", "importance"]
VIEWS = 16


def measure(workload: Workload, *, views: int = VIEWS) -> pd.DataFrame:
    """All moments of one training; columns as `CSV_COLUMNS`."""
    plan = workload.plan(arm("barrier"))
    training = Training(workload.recipe(), plan)
    every = len(workload.capture.train)
    shown = np.unique(np.linspace(0, every - 1, min(views, every)).round().astype(int))
    found, done = [], 0
    for moment, until in zip(MOMENTS, (0, plan.steps // 2, plan.steps, plan.steps), strict=True):
        train(training, done, until)
        if moment == MOMENTS[-1]:
            keeper = Keeper()
            training.recipe.restructure(until, Event.RESET, 0, RankSum(SingleRank(), keeper), keeper)
        done = until
        found.append(pd.DataFrame(
            {
                "scene": workload.capture.name,
                "moment": moment,
                "images": until * plan.global_batch,
                "primitives": len(training.recipe.table),
                "view": [workload.capture.cameras[workload.capture.train[view]].name for view in shown],
                **look_at_views(training, shown.tolist()).shares(),
            }
        ))  # fmt: skip
    return pd.concat(found, ignore_index=True)[CSV_COLUMNS]


def main(arguments: Sequence[str]) -> int:
    """Measure every scene, print means, and write all views as CSV where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--scene", action="append", metavar="NAME", help="default: rooms")
    parser.add_argument("--views", type=int, default=VIEWS, help=f"views looked at (default {VIEWS})")
    parser.add_argument("--out", type=Path)
    given = parser.parse_intermixed_args(arguments)
    if given.views < 1:
        parser.error("--views is at least 1")
    frames = []
    try:
        for scene in given.scene or ["rooms"]:
            words = [f"scene={scene}", "steps=1750", *DEFAULTS, *given.words]
            frames.append(measure(load_workload(load(words), print), views=given.views))
    except OdinError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    frame = pd.concat(frames, ignore_index=True)
    print(frame.groupby(["scene", "moment"], sort=False)[CSV_COLUMNS[5:]].mean().round(3).to_string())
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        frame.to_csv(given.out, index=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
