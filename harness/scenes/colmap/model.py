"""A COLMAP model as read from its three files, before anything is checked against anything else.

Legend: N registered images, P points, O track elements, M 2D observations over all images.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from odin.errors import InputError


def printable(name: str) -> str:
    """An image's name for a message. It may hold anything; a line break, or what moves a terminal's cursor, is shown
    escaped."""
    return name if name.isprintable() else repr(name)


@dataclass(frozen=True, kw_only=True)
class ModelCamera:
    """One row of cameras.bin / cameras.txt; params in COLMAP's order for `model`, in pixels of `images`."""

    camera_id: int
    model: str
    width: int
    height: int
    params: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class ModelImage:
    """One registered image: quaternion wxyz and translation, world → camera; name below the image folder."""

    image_id: int
    camera_id: int
    name: str
    quaternion: tuple[float, float, float, float]
    translation: tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class Observations:
    """Which point each 2D observation of each image belongs to.

    offsets:   int64 [N+1], rows of images in file order
    point_ids: int64 [M], -1 where the observation belongs to no point
    """

    offsets: NDArray[np.int64]
    point_ids: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class PointTable:
    """points3D in ascending id, tracks as compressed rows.

    ids:         int64 [P], unique
    xyz:         float64 [P, 3], world units
    rgb:         uint8 [P, 3]
    offsets:     int64 [P+1]
    image_ids:   int64 [O], as written: may name images that are not registered
    observation: int64 [O], index of the 2D observation within its image
    """

    ids: NDArray[np.int64]
    xyz: NDArray[np.float64]
    rgb: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    image_ids: NDArray[np.int64]
    observation: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Model:
    """The three files, read.

    folder:       where they were
    cameras:      in file order
    images:       N images in file order
    observations: rows belong to `images`
    points:       sorted by id
    """

    folder: Path
    cameras: tuple[ModelCamera, ...]
    images: tuple[ModelImage, ...]
    observations: Observations
    points: PointTable

    @cached_property
    def camera_by_id(self) -> dict[int, ModelCamera]:
        """Camera id → camera; of two cameras with one id the later (`check_model` refuses such models)."""
        return {camera.camera_id: camera for camera in self.cameras}


def damaged(path: Path, detail: str) -> InputError:
    """The error for a file whose bytes do not make sense."""
    return InputError(
        f"{path}: {detail}. The file is truncated or is not what COLMAP writes; copy it again, or export the "
        "model again with colmap model_converter."
    )


def sorted_by_id(path: Path, points: PointTable) -> PointTable:
    """The same points in ascending id, so that text and binary models give equal captures.

    Raises InputError when an id occurs twice.
    """
    if not np.all(points.ids[1:] > points.ids[:-1]):
        points = _reorder(points, np.argsort(points.ids, kind="stable"))
    twice = np.flatnonzero(points.ids[1:] == points.ids[:-1])
    if len(twice):
        raise damaged(path, f"point id {points.ids[twice[0]]} occurs more than once")
    return points


def _reorder(points: PointTable, order: NDArray[np.intp]) -> PointTable:
    lengths = np.diff(points.offsets)[order]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    # Row r's elements are a run in the old table; shift each run by the difference of its two starts.
    source = np.repeat(points.offsets[:-1][order] - offsets[:-1], lengths) + np.arange(offsets[-1])
    return PointTable(
        ids=points.ids[order],
        xyz=points.xyz[order],
        rgb=points.rgb[order],
        offsets=offsets,
        image_ids=points.image_ids[source],
        observation=points.observation[source],
    )
