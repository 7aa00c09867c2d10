"""The recipes beside each other at an equal budget of images: quality, primitives and CPU time per image.

    python -m benchmarks.pipelines scene=../shared/data/bonsai images=images_4 steps=300

One rank trains each pipeline under `barrier` with B = 4 views per step, without link and padding. CPU time is that of
the training thread within phases (render, loss, backward, update, structure), so other work on the machine does not
count; reading photos, spectra and evaluation are outside. Views are the same ones in the same order.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from harness.config import load
from harness.run.collect import quality_of
from harness.run.execute import execute, render_views
from harness.run.workload import Workload, load_workload
from odin.arms import arm
from odin.comm.transport import SingleRank
from odin.keeper import Keeper
from pipelines.reference.registry import FAMILIES
from pipelines.render.cpu import warm_up

ARM = "barrier"
ENGINE = ("ranks=1", "views_per_unit=4", "link=none", "padded=false", f"arms={ARM}", "mirrored=false")


def measure(name: str, words: Sequence[str], loaded: Workload | None = None) -> tuple[dict[str, object], Workload]:
    """One row of the table; `loaded` holds the scene, if it is loaded already."""
    config = load([f"pipeline={name}", *words, *ENGINE])
    workload = load_workload(config) if loaded is None else Workload(config=config, capture=loaded.capture)
    recipe, keeper = workload.recipe(), Keeper()
    before = quality_of(render_views(recipe, workload), workload, with_ssim=False)
    start = len(recipe.table)
    done = execute(workload, arm(ARM), SingleRank(), keeper, recipe=recipe)
    after = quality_of(render_views(recipe, workload), workload, with_ssim=False)
    images = config.image_budget
    by_category = {
        category: sum(e.cpu for e in keeper.entries if e.kind == "phase" and e.category == category)
        for category in ("useful", "structural")
    }
    row = {
        "pipeline": name,
        "images": images,
        "psnr_initial": before.psnr.value,
        "psnr": after.psnr.value,
        "primitives_initial": start,
        "primitives": len(recipe.table),
        "primitive_budget": getattr(recipe, "budget", None),
        "cpu_ms_per_image": 1e3 * by_category["useful"] / images,
        "structural_cpu_ms_per_image": 1e3 * by_category["structural"] / images,
        "events": sum(r.structural for r in done.records),
    }
    return row, workload


def main(arguments: Sequence[str]) -> int:
    """Train every pipeline, print the table and write it as CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--pipelines", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--out", type=Path, default=Path("runs/pipelines"))
    given = parser.parse_args(arguments)
    warm_up()
    rows: list[dict[str, object]] = []
    workload = None
    for name in given.pipelines:
        row, workload = measure(name, given.words, workload)
        rows.append(row)
        print(pd.DataFrame(rows[-1:]).to_string(index=False), flush=True)
    frame = pd.DataFrame(rows)
    print(frame.to_string(index=False))
    given.out.mkdir(parents=True, exist_ok=True)
    frame.to_csv(given.out / "pipelines.csv", index=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
