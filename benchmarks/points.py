"""Time to read the points and tracks of a large model (D§12).

    python -m benchmarks.points --images 50000 --kind aerial

Writes the synthetic capture of `benchmarks.planner` as a points3D.bin in a temporary folder (about 1 GB for 50,000
images of 1,000 observations: 10 million tracks), reads it once, and then --repeat times from the page cache with the
reader that every scene goes through. Prints medians; cpu_s counts all threads.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numba import njit
from numpy.typing import NDArray

from benchmarks.planner import timed
from benchmarks.synthetic_tracks import KINDS, OBSERVATIONS, make_tracks
from harness.scenes.colmap.binary import read_points
from harness.scenes.colmap.kernels import HEAD, RECORD
from odin.tracks import Tracks

ELEMENT = 8  # bytes of an element of a track: image and keypoint


@njit(cache=True)
def _fill(offsets: NDArray[np.int64], views: NDArray[np.int32], position: NDArray[np.uint8], out: NDArray) -> None:
    """Records of points3D.bin behind its count: point t + 1 with the images of track t, counted from 1."""
    at = 8
    for track in range(len(offsets) - 1):
        low, high = offsets[track], offsets[track + 1]
        _put(out, at, track + 1, 8)
        out[at + 8 : at + 32] = position
        _put(out, at + HEAD, high - low, 8)
        at += RECORD
        for place in range(low, high):
            _put(out, at, views[place] + 1, 4)
            _put(out, at + 4, place - low, 4)
            at += ELEMENT


@njit(cache=True)
def _put(out: NDArray, at: int, value: int, size: int) -> None:
    """A little-endian integer."""
    for byte in range(size):
        out[at + byte] = (value >> (8 * byte)) & 255


def write_points(path: Path, tracks: Tracks) -> None:
    """The tracks as a points3D.bin; all points lie at (1, 1, 1)."""
    out = np.zeros(8 + RECORD * tracks.track_count + ELEMENT * len(tracks.views), np.uint8)
    out[:8] = np.array([tracks.track_count], "<u8").view(np.uint8)
    _fill(tracks.offsets, tracks.views, np.ones(3, "<f8").view(np.uint8), out)
    out.tofile(path)


def main(arguments: Sequence[str]) -> int:
    """Write, read and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--kind", choices=KINDS, default="aerial")
    parser.add_argument("--obs", choices=list(OBSERVATIONS), default="dense")
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "points3D.bin"
        tracks, _ = make_tracks(given.images, given.kind, given.obs, seed=1)
        write_points(path, tracks)
        found = read_points(path)
        if not np.array_equal(np.diff(found.offsets), np.diff(tracks.offsets)):
            raise AssertionError("the reader found other tracks than were written")
        del found
        runs = [timed(lambda: read_points(path)) for _ in range(given.repeat)]
        wall, cpu = (statistics.median(values) for values in zip(*runs, strict=True))
        print(
            f"{tracks.track_count:,} tracks, {len(tracks.views):,} observations, {path.stat().st_size / 1e6:,.0f} MB: "
            f"{wall:.2f} s wall, {cpu:.2f} s CPU (median of {given.repeat}, in the page cache)"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
