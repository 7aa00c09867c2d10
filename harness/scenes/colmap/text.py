"""Text models, read by line. pycolmap's own text reader cuts image names at a space and lets observations of
points that do not exist through, so it is not used."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from harness.scenes.colmap.camera_models import parameter_counts
from harness.scenes.colmap.model import (
    Model,
    ModelCamera,
    ModelImage,
    Observations,
    PointTable,
    damaged,
    sorted_by_id,
)

_Row = TypeVar("_Row")
_HEADER_FIELDS = 9  # of an image line, before its name


def read_text(folder: Path) -> Model:
    """Read cameras.txt, images.txt and points3D.txt of `folder`; InputError names file and line."""
    images, observations = read_images(folder / "images.txt")
    return Model(
        folder=folder,
        cameras=read_cameras(folder / "cameras.txt"),
        images=images,
        observations=observations,
        points=read_points(folder / "points3D.txt"),
    )


def read_cameras(path: Path) -> tuple[ModelCamera, ...]:
    """cameras.txt: CAMERA_ID MODEL WIDTH HEIGHT PARAMS[]."""
    return tuple(_parsed(path, number, line, _camera) for number, line in _content(path))


def _camera(line: str) -> ModelCamera:
    camera_id, model, width, height, *params = line.split()
    expected = parameter_counts().get(model)
    if expected is None:
        raise ValueError(f"unknown camera model {model}")
    if len(params) != expected:
        raise ValueError(f"{model} has {expected} parameters, found {len(params)}")
    return ModelCamera(
        camera_id=_id(camera_id),
        model=model,
        width=int(width),
        height=int(height),
        params=tuple(map(float, params)),
    )


def _id(field: str) -> int:
    """An image's or camera's id, which COLMAP keeps in 32 bits."""
    value = int(field)
    if not 0 <= value < 1 << 32:
        raise ValueError(f"id {field} is not from 0 to {(1 << 32) - 1}")
    return value


def read_images(path: Path) -> tuple[tuple[ModelImage, ...], Observations]:
    """images.txt: two lines per image, the second (its observations) may be empty."""
    images: list[ModelImage] = []
    observed: list[NDArray[np.int64]] = []
    lines = _lines(path)
    for number, line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        images.append(_parsed(path, number, line, _image))
        # The file may end after the header of an image without observations.
        number, line = next(lines, (number + 1, ""))
        observed.append(_parsed(path, number, line, _observations))
    offsets = np.cumsum([0, *map(len, observed)]).astype(np.int64)
    point_ids = np.concatenate(observed) if observed else np.zeros(0, np.int64)
    return tuple(images), Observations(offsets=offsets, point_ids=point_ids)


def _image(line: str) -> ModelImage:
    fields = line.split(maxsplit=_HEADER_FIELDS)
    if len(fields) <= _HEADER_FIELDS:
        raise ValueError("expected IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME")
    qw, qx, qy, qz, tx, ty, tz = map(float, fields[1:8])
    return ModelImage(
        image_id=_id(fields[0]),
        camera_id=_id(fields[8]),
        name=fields[9].strip(),
        quaternion=(qw, qx, qy, qz),
        translation=(tx, ty, tz),
    )


def _observations(line: str) -> NDArray[np.int64]:
    fields = line.split()
    if len(fields) % 3:
        raise ValueError("expected the X Y POINT3D_ID triples of the image above, or an empty line")
    # Coordinates are not used, but an image line in this place must not pass for observations.
    for x, y in zip(fields[0::3], fields[1::3], strict=True):
        float(x), float(y)
    return np.array([int(field) for field in fields[2::3]], np.int64)


def read_points(path: Path) -> PointTable:
    """points3D.txt: POINT3D_ID X Y Z R G B ERROR TRACK[], sorted by point id."""
    ids, xyz, rgb, lengths, elements = array("q"), array("d"), array("B"), array("q"), array("q")

    def point(line: str) -> None:
        fields = line.split()
        if len(fields) < 8 or len(fields) % 2:
            raise ValueError("expected POINT3D_ID X Y Z R G B ERROR and pairs IMAGE_ID POINT2D_IDX")
        ids.append(int(fields[0]))
        xyz.extend(map(float, fields[1:4]))
        rgb.extend(map(int, fields[4:7]))
        lengths.append(len(fields) // 2 - 4)
        elements.extend(map(int, fields[8:]))

    for number, line in _content(path):
        _parsed(path, number, line, point)
    pairs = np.array(elements, np.int64).reshape(-1, 2)
    points = PointTable(
        ids=np.array(ids, np.int64),
        xyz=np.array(xyz, np.float64).reshape(-1, 3),
        rgb=np.array(rgb, np.uint8).reshape(-1, 3),
        offsets=np.concatenate([[0], np.cumsum(np.array(lengths, np.int64))]).astype(np.int64),
        image_ids=np.ascontiguousarray(pairs[:, 0]),
        observation=np.ascontiguousarray(pairs[:, 1]),
    )
    return sorted_by_id(path, points)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """(line number from 1, text) of a UTF-8 file, with or without a byte order mark."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            yield from enumerate(file, start=1)
    except (UnicodeDecodeError, OSError) as error:
        raise damaged(path, f"it cannot be read as UTF-8 text ({error})") from error


def _content(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are neither empty nor a comment."""
    return ((number, line) for number, line in _lines(path) if line.strip() and not line.startswith("#"))


def _parsed(path: Path, number: int, line: str, parse: Callable[[str], _Row]) -> _Row:
    try:
        return parse(line)
    except (ValueError, OverflowError) as error:
        raise damaged(path, f"line {number}: {error}") from error
