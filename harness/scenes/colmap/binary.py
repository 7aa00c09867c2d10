"""Binary models. Every count is compared with the bytes that are there before it is believed.

pycolmap.Reconstruction is not used to read them: it builds a Python-visible object per track element (half a
million observations per CPU second against tens of millions here), and on a damaged file it may raise
anything, or take the process with it. tests/scenes checks this reader against it.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.scenes.colmap.camera_models import model_names, parameter_counts
from harness.scenes.colmap.kernels import RECORD, copy_points, scan_points
from harness.scenes.colmap.model import (
    Model,
    ModelCamera,
    ModelImage,
    Observations,
    PointTable,
    damaged,
    printable,
    sorted_by_id,
)

_COUNT = struct.Struct("<Q")
_CAMERA = struct.Struct("<IiQQ")
_IMAGE = struct.Struct("<I4d3dI")
_OBSERVATION = np.dtype([("xy", "<f8", 2), ("point_id", "<i8")])

_SMALLEST_CAMERA = _CAMERA.size + 8 * 2  # no model has fewer than two parameters
_SMALLEST_IMAGE = _IMAGE.size + 1 + _COUNT.size  # empty name, no observations


class _Cursor:
    """Reads forward through a file's bytes and refuses to step past their end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = _mapped(path)
        self.at = 0

    def unpack(self, layout: struct.Struct, what: str) -> tuple:
        self.require(layout.size, what)
        values = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return values

    def require(self, size: int, what: str) -> None:
        left = len(self.data) - self.at
        if size > left:
            raise damaged(self.path, f"{what} needs {size} bytes at position {self.at}, {left} are left")

    def count(self, smallest_record: int, what: str) -> int:
        (count,) = self.unpack(_COUNT, "the record count")
        self.require(count * smallest_record, f"a table of {count} {what}")
        return count

    def name(self) -> str:
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise damaged(self.path, f"the image name at position {self.at} has no end")
        raw, self.at = self.data[self.at : end], end + 1
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise damaged(self.path, f"the image name {raw!r} is not UTF-8") from error

    def finish(self, what: str) -> None:
        if self.at != len(self.data):
            raise damaged(self.path, f"{len(self.data) - self.at} bytes follow the last of its {what}")


def _mapped(path: Path) -> mmap.mmap | bytes:
    """The bytes of a file where the page cache holds them: a copy of a large model takes longer than to parse it."""
    try:
        with path.open("rb") as file:
            empty = not path.stat().st_size  # which cannot be mapped
            return b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise damaged(path, f"it cannot be read ({error})") from error


def read_binary(folder: Path) -> Model:
    """Read cameras.bin, images.bin and points3D.bin of `folder`; InputError when the bytes do not fit."""
    images, observations = read_images(folder / "images.bin")
    return Model(
        folder=folder,
        cameras=read_cameras(folder / "cameras.bin"),
        images=images,
        observations=observations,
        points=read_points(folder / "points3D.bin"),
    )


def read_cameras(path: Path) -> tuple[ModelCamera, ...]:
    """cameras.bin, in file order."""
    cursor = _Cursor(path)
    cameras = [_read_camera(cursor) for _ in range(cursor.count(_SMALLEST_CAMERA, "cameras"))]
    cursor.finish("cameras")
    return tuple(cameras)


def _read_camera(cursor: _Cursor) -> ModelCamera:
    camera_id, number, width, height = cursor.unpack(_CAMERA, "a camera")
    model = model_names().get(number)
    if model is None:
        raise damaged(cursor.path, f"camera {camera_id} has model number {number}, which no COLMAP model has")
    params = cursor.unpack(struct.Struct(f"<{parameter_counts()[model]}d"), f"camera {camera_id} ({model})")
    return ModelCamera(camera_id=camera_id, model=model, width=width, height=height, params=params)


def read_images(path: Path) -> tuple[tuple[ModelImage, ...], Observations]:
    """images.bin: images in file order, and the point each of their 2D observations belongs to."""
    cursor = _Cursor(path)
    images: list[ModelImage] = []
    observed: list[NDArray[np.int64]] = []
    for _ in range(cursor.count(_SMALLEST_IMAGE, "images")):
        images.append(_read_image(cursor))
        observed.append(_read_observations(cursor, images[-1].name))
    cursor.finish("images")
    offsets = np.cumsum([0, *map(len, observed)]).astype(np.int64)
    point_ids = np.concatenate(observed) if observed else np.zeros(0, np.int64)
    return tuple(images), Observations(offsets=offsets, point_ids=point_ids)


def _read_image(cursor: _Cursor) -> ModelImage:
    image_id, qw, qx, qy, qz, tx, ty, tz, camera_id = cursor.unpack(_IMAGE, "an image")
    return ModelImage(
        image_id=image_id,
        camera_id=camera_id,
        name=cursor.name(),
        quaternion=(qw, qx, qy, qz),
        translation=(tx, ty, tz),
    )


def _read_observations(cursor: _Cursor, name: str) -> NDArray[np.int64]:
    (count,) = cursor.unpack(_COUNT, f"the observation count of {printable(name)}")
    cursor.require(count * _OBSERVATION.itemsize, f"{printable(name)} with {count} observations")
    table = np.frombuffer(cursor.data, _OBSERVATION, count, cursor.at)
    cursor.at += count * _OBSERVATION.itemsize
    return table["point_id"].astype(np.int64)


def read_points(path: Path) -> PointTable:
    """points3D.bin, sorted by point id."""
    cursor = _Cursor(path)
    offsets = np.zeros(cursor.count(RECORD, "points") + 1, np.int64)
    data = np.frombuffer(cursor.data, np.uint8)
    rows, cursor.at = scan_points(data, offsets)
    if rows < len(offsets) - 1:
        raise damaged(path, f"it announces {len(offsets) - 1} points and ends inside point number {rows + 1}")
    cursor.finish("points")
    count = len(offsets) - 1
    points = PointTable(
        ids=np.empty(count, np.int64),
        xyz=np.empty((count, 3)),
        rgb=np.empty((count, 3), np.uint8),
        offsets=offsets,
        image_ids=np.empty(offsets[-1], np.int64),
        observation=np.empty(offsets[-1], np.int64),
    )
    copy_points(data, offsets, points.ids, points.xyz.view(np.uint64), points.rgb, points.image_ids, points.observation)
    return sorted_by_id(path, points)
