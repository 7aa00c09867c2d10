"""Track tables of captures that do not exist, for timing the planner (D§12 Benchmark).

Track lengths follow P(L) ∝ L^-2.4 on [2, 300]. A track starts at an image drawn with a smooth log-normal weight and
is seen by the nearest footprints, each accepted with a probability of the track's own, uniform in [.15, .9]. The
numbers are a modelling choice, not a fit to captures. Equal arguments give equal tables on every machine.

Legend: V images, P tracks, O observations, R candidates per image.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from odin.planner.row_kernels import mix
from odin.tracks import Tracks

KINDS = ("aerial", "walk", "orbit")
OBSERVATIONS = {"dense": 1000, "light": 100}  # per image, in the mean
EXPONENT, SHORTEST, LONGEST = 2.4, 2, 300
LOW, HIGH = 0.15, 0.9  # acceptance of a track
ROUGHNESS = 0.35  # standard deviation of the log weight of images
CANDIDATES = 512


def make_tracks(images: int, kind: str, obs: str, seed: int) -> tuple[Tracks, NDArray[np.float64]]:
    """Tracks in no order over `images` views in capture order, and camera centres, float64 [V, 3]."""
    rng = np.random.default_rng([seed, images])
    place = _footprints(images, kind, rng)
    near = _nearest(place, min(images, CANDIDATES))
    lengths = np.arange(SHORTEST, max(min(LONGEST, images // 2), SHORTEST) + 1)
    share = lengths**-EXPONENT
    share /= share.sum()
    count = round(images * OBSERVATIONS[obs] / float(lengths @ share))
    length = rng.choice(lengths, count, p=share)
    offsets = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    views = np.empty(offsets[-1], np.int32)
    first = rng.choice(images, count, p=_weights(near, rng)).astype(np.int32)
    _fill(offsets, first, near, rng.uniform(LOW, HIGH, count), seed, views)
    return Tracks(offsets=offsets, views=views, view_count=images), np.column_stack([place, np.zeros(images)])


def _footprints(images: int, kind: str, rng: np.random.Generator) -> NDArray[np.float64]:
    """Where each image looks, [V, 2], in units of the distance between neighbours of a flight line."""
    number = np.arange(images)
    if kind == "aerial":  # there and back; lines twice as far apart as the images of a line
        per_line = max(2, int(np.sqrt(2 * images)))
        line, column = np.divmod(number, per_line)
        x = np.where(line % 2 == 0, column, per_line - 1 - column)
        return np.column_stack([x, 2.0 * line]) + rng.normal(0, 0.15, (images, 2))
    if kind == "walk":  # streets in a square that is large enough to be walked about eight times
        heading = np.cumsum(rng.normal(0, 0.12, images))
        step = np.column_stack([np.cos(heading), np.sin(heading)])
        side = 4.0 * np.sqrt(images)
        path = np.cumsum(step, axis=0) + side * rng.random(2)
        return np.abs((path + side) % (2 * side) - side) + 3.0 * step  # reflected at the walls, looking ahead
    turns = 6.0 * number / images  # six rings around one object, each wider than the last
    radius = 10.0 + 2.0 * np.floor(turns)
    ring = np.column_stack([np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns)])
    return radius[:, None] * ring + rng.normal(0, 0.1, (images, 2))


def _nearest(place: NDArray[np.float64], count: int) -> NDArray[np.int32]:
    """The nearest footprints of each, itself first, int32 [V, R]."""
    tree, near = cKDTree(place), np.empty((len(place), count), np.int32)
    for start in range(0, len(place), 4096):  # bounds the doubles that the query returns beside them
        near[start : start + 4096] = tree.query(place[start : start + 4096], k=count)[1]
    return near


def _weights(near: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.float64]:
    """Share of the tracks that start at each image: log-normal, smooth over 16 neighbours."""
    smooth = rng.normal(size=len(near))[near[:, :16]].mean(axis=1)
    weight = np.exp(ROUGHNESS * smooth / smooth.std())
    return weight / weight.sum()


@njit(nogil=True, cache=True)
def _fill(
    offsets: NDArray, first: NDArray, near: NDArray, accept: NDArray, seed: int, views: NDArray
) -> None:  # pragma: no cover - compiled
    """Write the members of every track, ascending."""
    candidates = near.shape[1]
    for track in range(len(first)):
        lo, hi = offsets[track], offsets[track + 1]
        views[lo] = first[track]
        at, rank = lo + 1, 1
        state = mix(np.uint64(track) ^ mix(seed))
        while at < hi:
            state = mix(state)
            drawn = np.float64(state >> np.uint64(11)) * 2.0**-53
            if drawn < accept[track] or candidates - rank <= hi - at:
                views[at] = near[first[track], rank]
                at += 1
            rank += 1
        views[lo:hi].sort()
