"""Time and memory of scopes and of the hazard pass over the size of the table (D§6 Scopes, D§11 targets).

    python -m benchmarks.scopes --rows 1000000 5000000 20000000 --views 16

A synthetic table of clusters in Morton order, and two steps of views on a ring inside it, looking across. Times are
medians, CPU beside wall: only CPU time counts on a machine that does other things too. `plain_ms` is the hazard pass
from unpacked masks.

`card_…` are no measurements but prices of the committed RTX 4090 profile (`virtual`) for one rank of such a step on
1920×1080 pixels: scopes and hazards, the step without them, and the former's share of the latter. Entries per row and
fragments per pixel are those of the committed recording of 3DGS on bonsai.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numba import njit
from numpy.typing import NDArray

from harness.profiles.load import compute_profile
from harness.profiles.price import Scale, priced
from harness.profiles.recording import load
from odin.bitmap import count, words
from odin.hazards import classify, classify_reference
from odin.inflation import Inflation
from odin.keeper import Work
from odin.phases import Phase
from odin.publication.layout import Classes, Cutting, lay_out
from pipelines.camera import Camera
from pipelines.columns import GEOMETRY
from pipelines.reference.morton import morton_order
from pipelines.render.cull import cull_packed
from pipelines.render.cull_kernels import BLOCK, BOXES, bound_block, fill_balls, judge_box
from pipelines.render.vectors import ROW
from pipelines.render.view import load_view, pack_camera

T = TypeVar("T")
REPEATS = 5
CLUSTERS = 400
HALF_SIZE = 10.0  # of the cube of cluster centres
RING = 6.0  # radius of the cameras' ring
CARD = "rtx4090"
RECORDING = Path("results/profiles/recordings/3dgs-bonsai.parquet")
PIXELS = 1920 * 1080
# Per view; the update is once per step and over all rows, as rows outside the scopes take their zero step.
PER_VIEW = (Phase.PROJECT, Phase.BIN, Phase.COLOUR, Phase.BLEND, Phase.LOSS, Phase.BLEND_BACKWARD,
            Phase.COLOUR_BACKWARD, Phase.PROJECTION_BACKWARD)  # fmt: skip


def make_table(rows: int, columns: int, seed: int) -> NDArray[np.float32]:
    """float32 [rows, columns] in Morton order; only the geometry is filled in. Clusters are 0.4 wide, rows about
    0.01."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-HALF_SIZE, HALF_SIZE, (CLUSTERS, 3)).astype(np.float32)
    xyz = rng.standard_normal((rows, 3), np.float32) * np.float32(0.4)
    xyz += centres[rng.integers(0, CLUSTERS, rows)]
    table = np.zeros((rows, columns), np.float32)
    table[:, :3] = xyz[morton_order(xyz)]
    table[:, 3:6] = rng.standard_normal((rows, 3), np.float32) * np.float32(0.5) - np.float32(4.5)
    table[:, 6] = 1.0
    return table


def make_cameras(views: int) -> list[Camera]:
    """640×480 pixels, 60° wide, evenly on the ring, looking through its centre."""
    cameras: list[Camera] = []
    for angle in 2.0 * np.pi * (np.arange(views) + 0.3) / views:
        eye = RING * np.array([np.cos(angle), np.sin(angle), 0.1])
        forward = -eye / np.linalg.norm(eye)
        right = np.cross(forward, [0.0, 0.0, 1.0])
        right /= np.linalg.norm(right)
        rotation = np.stack([right, np.cross(forward, right), forward])
        cameras.append(
            Camera(
                name=f"{len(cameras)}",
                width=640,
                height=480,
                fx=554.0,
                fy=554.0,
                cx=320.0,
                cy=240.0,
                rotation=rotation,
                translation=-rotation @ eye,
            )
        )
    return cameras


@njit(**{**ROW, "cache": False})
def tested_blocks(geometry: NDArray, level: NDArray, zero: NDArray, views: NDArray) -> int:
    """Pairs of block and view whose rows have to be tested one by one."""
    balls, boxes, tested = np.zeros(5 * BLOCK), np.zeros(BOXES), 0
    for first in range(0, geometry.shape[0], BLOCK):
        fill_balls(geometry, level, zero, zero, first, balls)
        middle, half, reach, scale2 = bound_block(balls, boxes)
        for v in range(views.shape[0]):
            some, every = judge_box(middle, half, reach, scale2, load_view(views[v]))
            tested += some and not every
    return tested


def timed(name: str, call: Callable[[], T]) -> tuple[T, dict[str, float]]:
    """Result of the call, and the medians of its wall and CPU time in ms; the first call compiles."""
    result, wall, cpu = call(), [], []
    for _ in range(REPEATS):
        started, used = time.perf_counter(), time.process_time()
        call()
        wall.append(1e3 * (time.perf_counter() - started))
        cpu.append(1e3 * (time.process_time() - used))
    return result, {f"{name}_wall_ms": statistics.median(wall), f"{name}_ms": statistics.median(cpu)}


def measure(rows: int, columns: int, ranks: int, unit: int, seed: int) -> dict[str, Any]:
    """One line of the table; `X_ms` is CPU time."""
    views, none = ranks * unit, Inflation.none(rows)
    geometry, cameras = make_table(rows, columns, seed)[:, GEOMETRY], make_cameras(2 * views)
    a, scopes_ms = timed("scopes", lambda: cull_packed(geometry, cameras[:views], none))
    b = cull_packed(geometry, cameras[views:], none)
    shape = {"ranks": ranks, "unit": unit, "rows": rows}
    (last, first, hazards), hazards_ms = timed("hazards", lambda: classify(a, a, b, b, **shape))
    _, plain_ms = timed("plain", lambda: classify_reference(a, a, b, b, **shape))
    classes, cutting = Classes(last=last, need=first), Cutting(unit=unit, groups=2, split=True, early=None, lead=None)
    _, cut_ms = timed("cut", lambda: lay_out(classes, cutting))
    packed = np.stack([pack_camera(camera) for camera in cameras[:views]])
    tested = tested_blocks(geometry, none.level, none.shift, packed)
    return {
        "rows": rows,
        "views": f"{ranks}·{unit}",
        **scopes_ms,
        "scopes_ns_per_row_view": 1e6 * scopes_ms["scopes_ms"] / (rows * views),
        **hazards_ms,
        "hazards_ns_per_row": 1e6 * hazards_ms["hazards_ms"] / rows,
        "plain_ms": plain_ms["plain_ms"],
        **cut_ms,
        "rows_in_scope": count(a) / (rows * views),
        **on_card(rows, views, unit, count(a) / (rows * views)),
        "blocks_settled": 1.0 - tested / (words(rows) * views),
        "conflicts": hazards.waw / rows,
        "bitmaps_mb": (a.nbytes + b.nbytes) / 1e6,
    }


def on_card(rows: int, views: int, unit: int, in_scope: float) -> dict[str, float]:
    """Prices of the committed GPU profile, ms, for one rank: scopes of `views` views and the hazard pass over `rows`
    rows; a step of `unit` views, each with a share `in_scope` of the rows; and the share that the former add to it."""
    prices, recorded = priced(compute_profile(CARD), Scale()), load(RECORDING)
    blends = recorded[recorded["name"] == Phase.BLEND.value]
    seen = round(in_scope * rows)
    entries = round(seen * blends["entries"].sum() / blends["rows"].sum())
    fragments = round(PIXELS * blends["fragments"].sum() / blends["pixels"].sum())
    view = Work(rows=seen, entries=entries, fragments=fragments, pixels=PIXELS)
    step = unit * sum(prices.price(phase.value, view) for phase in PER_VIEW)
    step += prices.price(Phase.UPDATE.value, Work(rows=rows)) + prices.price(Phase.CLEAR.value, Work(rows=rows))
    admission = prices.price(Phase.SCOPES.value, Work(rows=rows * views))
    hazards = prices.price(Phase.HAZARDS.value, Work(rows=rows))
    return {
        "card_scopes_ms": 1e3 * admission,
        "card_hazards_ms": 1e3 * hazards,
        "card_step_ms": 1e3 * step,
        "card_share": (admission + hazards) / (step + admission + hazards),
    }


def main(arguments: Sequence[str]) -> int:
    """Print one line per size, write them as CSV if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--views", type=int, default=16, help="views of a step (default 16)")
    parser.add_argument("--ranks", type=int, default=2, help="ranks that share them (default 2)")
    parser.add_argument("--columns", type=int, default=59, help="columns of the table, of which 11 are read")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", type=Path, help="write the table here too")
    given = parser.parse_args(arguments)
    if (
        given.ranks < 1
        or given.views < 1
        or given.views % given.ranks
        or min(given.rows) < 1
        or given.columns < GEOMETRY.stop
    ):
        parser.error("--views must be a multiple of --ranks, --rows positive, --columns at least 11")
    unit = given.views // given.ranks
    frame = pd.DataFrame([measure(n, given.columns, given.ranks, unit, given.seed) for n in given.rows])
    print(frame.T.to_string(header=False, float_format="{:.3f}".format))
    if given.csv:
        frame.to_csv(given.csv, index=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
