"""Time and memory of a plan over the number of images, against the usual ways to count shared tracks (D§12).

    python -m benchmarks.planner --images 1000 50000 --kind aerial --obs dense light --csv runs/planner.csv

A row is one plan of one epoch (locality graph, partition, order, windows) at B = 16 and K = 4 from tracks in memory,
made in a process of its own. `cold` is the first plan of that process, which loads the compiled kernels (and compiles
them on the first run ever); the warm row beside it holds the medians of --repeat plans that follow. cpu_s counts all
threads: it is what other load on the machine disturbs least. peak_mb is memory above what the process held with the
input loaded. `scipy` (A·Aᵀ) and `dict` (counting pairs track by track) are baselines: they use every observation of
tracks of up to 64 images and build the graph alone, no order.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

if not __package__:  # called as a file
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np
import pandas as pd
import psutil
from numpy.typing import NDArray

from benchmarks.planner_baselines import BASELINES
from benchmarks.synthetic_tracks import KINDS, OBSERVATIONS, make_tracks
from odin.planner import SETTINGS, build_plan
from odin.planner.rows import default_threads
from odin.tracks import Tracks

COLUMNS = ["images", "kind", "obs", "setting", "threads", "cold", "wall_s", "cpu_s", "peak_mb", "load"]
RANKS, PER_UNIT, REGIONS = 8, 2, 4
# Table 3 of the paper: seconds of ahead-of-time planning by number of images.
PAPER = {1000: 0.013, 2000: 0.028, 5000: 0.161, 10_000: 0.464, 20_000: 1.673, 50_000: 9.450}
NOT_ALIKE = (
    "not like for like: the paper states neither the observations per image nor the machine of its Table 3, and "
    "planning time is proportional to the former"
)


def plan(tracks: Tracks, centres: NDArray[np.float64], setting: str, threads: int) -> None:
    """One epoch's plan, or a baseline's graph."""
    if setting in BASELINES:
        BASELINES[setting](tracks)
        return
    build_plan(
        tracks=tracks,
        centres=centres,
        order="plan",
        ranks=RANKS,
        views_per_unit=PER_UNIT,
        steps=max(tracks.view_count // (RANKS * PER_UNIT), 1),
        regions=REGIONS,
        seed=1,
        setting=setting,
        threads=threads,
        anneal=False,
    )


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def measure(folder: Path, setting: str, threads: int, repeat: int) -> dict[str, list[float] | float | int]:
    """In a fresh process: the cold plan, the warm ones, and the peak above the loaded input."""
    tracks = Tracks(
        offsets=np.load(folder / "offsets.npy"),
        views=np.load(folder / "views.npy"),
        view_count=len(centres := np.load(folder / "centres.npy")),
    )
    threads = 1 if setting in BASELINES else threads or default_threads(tracks)
    before = psutil.Process().memory_info().rss
    runs = [timed(lambda: plan(tracks, centres, setting, threads)) for _ in range(1 + repeat)]
    peak = peak_memory()
    return {
        "threads": threads,
        "cold": runs[0],
        "warm": [float(np.median(values)) for values in zip(*runs[1:], strict=True)],
        "peak_mb": max(peak - before, 0) / 1e6,
        "load": os.getloadavg()[0],
    }


def peak_memory() -> int:
    """Most memory that this process has held, in bytes."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    # ru_maxrss will not do: a process that was started by a larger one begins with what that one held.
    (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def in_a_process(folder: Path, setting: str, threads: int, repeat: int) -> dict:
    """`measure` of one setting, so that no setting inherits another's memory or compiled kernels."""
    command = [sys.executable, __file__, "--measure", str(folder), "--settings", setting]
    command += ["--threads", str(threads), "--repeat", str(repeat)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def input_folder(root: Path, images: int, kind: str, obs: str, seed: int) -> Path:
    """Where the arrays of a capture lie; made if they are not there."""
    folder = root / f"{kind}-{images}-{obs}-{seed}"
    if not (folder / "offsets.npy").exists():
        folder.mkdir(parents=True, exist_ok=True)
        tracks, centres = make_tracks(images, kind, obs, seed)
        np.save(folder / "views.npy", tracks.views)
        np.save(folder / "centres.npy", centres)
        np.save(folder / "offsets.npy", tracks.offsets)  # last: marks the folder complete
    return folder


def compare(root: Path, given: argparse.Namespace) -> pd.DataFrame:
    """All rows, `COLUMNS`."""
    rows = []
    for images, kind, obs in product(given.images, given.kind, given.obs):
        folder = input_folder(root, images, kind, obs, given.seed)
        for setting in given.settings:
            if setting in BASELINES and images > given.baseline_limit:
                print(f"{setting} at {images} images: left out (--baseline-limit {given.baseline_limit})")
                continue
            got = in_a_process(folder, setting, given.threads, given.repeat)
            for cold, seconds in ((True, got["cold"]), (False, got["warm"])):
                case = [images, kind, obs, setting, got["threads"], cold]
                rows.append([*case, *seconds, got["peak_mb"], got["load"]])
    return pd.DataFrame(rows, columns=COLUMNS)


def beside_the_paper(frame: pd.DataFrame) -> str:
    """Our warm times of dense captures beside Table 3, with the reason not to compare them."""
    lines = [f"Table 3 of the paper ({NOT_ALIKE}):"]
    warm = frame[~frame.cold & ~frame.setting.isin(list(BASELINES))]
    for row in warm.itertuples():
        if row.images in PAPER:
            case = f"{row.images} {row.kind} {row.obs} {row.setting}"
            lines.append(f"  {case}: {row.wall_s:.3f} s wall, {row.cpu_s:.3f} s CPU; paper {PAPER[row.images]} s")
    return "\n".join(lines)


def exponents(frame: pd.DataFrame) -> str:
    """Growth of warm CPU time between the smallest and the largest number of images: time ∝ images^exponent."""
    lines = []
    for case, part in frame[~frame.cold].groupby(["kind", "obs", "setting"]):
        ends = part.sort_values("images").iloc[[0, -1]]
        if ends.images.iloc[0] < ends.images.iloc[1]:
            growth = np.diff(np.log(ends.cpu_s))[0] / np.diff(np.log(ends.images))[0]
            span = f"{ends.images.iloc[0]} → {ends.images.iloc[1]} images"
            lines.append(f"exponent {' '.join(case)}: {growth:.2f} ({span}, CPU time)")
    return "\n".join(lines)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; its mistakes end the program with a message."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = [*SETTINGS, *BASELINES]
    parser.add_argument("--images", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=["aerial"])
    parser.add_argument("--obs", nargs="+", choices=list(OBSERVATIONS), default=["dense"])
    parser.add_argument("--settings", nargs="+", choices=every, default=every)
    parser.add_argument("--threads", type=int, default=0, help="0: chosen by the amount of input")
    parser.add_argument("--repeat", type=int, default=5, help="warm plans per row")
    parser.add_argument("--baseline-limit", type=int, default=2000, help="most images that baselines are run on")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--csv", type=Path, default=None)
    parser.add_argument("--keep", type=Path, default=None, help="folder for the generated captures")
    parser.add_argument("--measure", type=Path, default=None, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if min(given.images) < RANKS * PER_UNIT or min(given.repeat, given.threads + 1) < 1:
        parser.error(f"--images is at least {RANKS * PER_UNIT}, --repeat 1 and --threads 0")
    return given


def main(arguments: Sequence[str]) -> int:
    """Measure, print the table, the comparison and the growth, and write the CSV."""
    given = parse(arguments)
    if given.measure is not None:
        print(json.dumps(measure(given.measure, given.settings[0], given.threads, given.repeat)))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        frame = compare(given.keep or Path(temporary), given)
    print(frame.to_string(index=False, float_format=lambda value: f"{value:.4g}"))
    print(beside_the_paper(frame))
    print(exponents(frame))
    if given.csv is not None:
        given.csv.parent.mkdir(parents=True, exist_ok=True)
        frame.to_csv(given.csv, index=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
