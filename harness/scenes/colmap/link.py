"""Tracks over views from a model's point table.

A track element counts when its image is registered and that image's own observation list agrees. Models are
edited by hand and by tools that keep only one of the two files up to date; the agreement is what both say.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.scenes.colmap.kernels import agreeing
from harness.scenes.colmap.model import Model, Observations, PointTable
from odin.errors import InputError
from odin.tracks import Tracks

_DENSE_IDS = 1 << 24  # ids up to here are looked up in a table of 64 MB at most


@dataclass(frozen=True, kw_only=True)
class LinkedTracks:
    """Tracks, and how many elements were left out.

    tracks:       row p belongs to point p of the model; no rows at all when nothing is observed
    unregistered: elements of images that are not in the model
    unlisted:     elements that their image's observation list does not confirm
    """

    tracks: Tracks
    unregistered: int
    unlisted: int


def link_tracks(model: Model, rank: NDArray[np.int32]) -> LinkedTracks:
    """Tracks over views, where the image in row i of the model is view rank[i] (a permutation, int32 [N]).

    A repeated observation of a view within a track stays repeated. Where no image lists any observation
    (some tools strip them), the point table alone decides.
    Raises InputError when both sides have observations and not one of them agrees.
    """
    points = model.points
    rows = _rows_of(points.image_ids, np.array([image.image_id for image in model.images], np.int64))
    registered = rows >= 0
    keep = registered
    if len(model.observations.point_ids):
        keep = _confirmed(points, model.observations, rows)
        if registered.any() and not keep.any() and model.observations.point_ids.max() >= 0:
            raise InputError(
                f"Model {model.folder}: none of the {int(registered.sum())} track elements of points3D is "
                "confirmed by the observations in images. The two files come from different models; copy "
                "both."
            )
    return LinkedTracks(
        tracks=_compressed(points.offsets, rank[rows[keep]], keep, len(model.images)),
        unregistered=int((~registered).sum()),
        unlisted=int((registered & ~keep).sum()),
    )


def _compressed(
    offsets: NDArray[np.int64], views: NDArray[np.int32], keep: NDArray[np.bool_], view_count: int
) -> Tracks:
    if not len(views):
        return Tracks.empty(view_count)
    kept_before = np.concatenate([[0], np.cumsum(keep)])
    return Tracks(offsets=kept_before[offsets].astype(np.int64), views=views, view_count=view_count)


def _rows_of(image_ids: NDArray[np.int64], registered: NDArray[np.int64]) -> NDArray[np.int32]:
    """Row of each id in `registered`, int32, -1 where it is not there."""
    lowest, highest = int(registered.min()), int(registered.max())
    if lowest >= 0 and highest < _DENSE_IDS:
        # One slot beyond the highest id stands for all ids outside.
        table = np.full(highest + 2, -1, np.int32)
        table[registered] = np.arange(len(registered), dtype=np.int32)
        inside = (image_ids >= 0) & (image_ids <= highest)
        return table[np.where(inside, image_ids, highest + 1)]
    order = np.argsort(registered)
    at = np.minimum(np.searchsorted(registered[order], image_ids), len(registered) - 1)
    found = registered[order][at] == image_ids
    return np.where(found, order[at], -1).astype(np.int32)


def _confirmed(points: PointTable, observations: Observations, rows: NDArray[np.int32]) -> NDArray[np.bool_]:
    """bool [O]: the image lists the point, at the element's index or (some tools do not keep it) anywhere."""
    same = agreeing(points.ids, points.offsets, rows, points.observation, observations.offsets, observations.point_ids)
    doubtful = np.flatnonzero((rows >= 0) & ~same)
    if len(doubtful):
        point_rows = np.searchsorted(points.offsets, doubtful, side="right") - 1
        asked = rows[doubtful].astype(np.int64) * len(points.ids) + point_rows
        same[doubtful] = np.isin(asked, _listed_pairs(points.ids, observations))
    return same


def _listed_pairs(point_ids: NDArray[np.int64], observations: Observations) -> NDArray[np.int64]:
    """image row · P + point row for every observation that names an existing point."""
    image_rows = np.repeat(np.arange(len(observations.offsets) - 1), np.diff(observations.offsets))
    at = np.minimum(np.searchsorted(point_ids, observations.point_ids), len(point_ids) - 1)
    exists = (point_ids[at] == observations.point_ids) & (observations.point_ids >= 0)
    return image_rows[exists] * len(point_ids) + at[exists]
