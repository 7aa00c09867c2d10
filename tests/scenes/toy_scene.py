"""A small COLMAP scene written from scratch: discs in space, seen by cameras on an arc.

`python tests/scenes/toy_scene.py FOLDER` writes images and both kinds of model. Tests change the model with
dataclasses.replace before it is written, so that broken inputs are as easy to make as good ones.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

WIDTH, HEIGHT = 48, 36
FOCAL = 44.0
DISC = 0.13  # radius, world units
NUMBERS = {"SIMPLE_PINHOLE": 0, "PINHOLE": 1, "SIMPLE_RADIAL": 2, "RADIAL": 3, "OPENCV": 4, "OPENCV_FISHEYE": 5}

Kinds = Iterable[str]  # "binary", "text"


@dataclass(frozen=True, kw_only=True)
class ToyCamera:
    """A row of cameras.bin."""

    camera_id: int = 1
    model: str = "PINHOLE"
    width: int = WIDTH
    height: int = HEIGHT
    params: tuple[float, ...] = (FOCAL, FOCAL, WIDTH / 2, HEIGHT / 2)


@dataclass(frozen=True, kw_only=True)
class ToyImage:
    """A row of images.bin; observed holds (x, y, point id or -1)."""

    image_id: int
    name: str
    quaternion: tuple[float, ...]
    translation: tuple[float, ...]
    camera_id: int = 1
    observed: tuple[tuple[float, float, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class ToyPoint:
    """A row of points3D.bin; track holds (image id, index of the observation)."""

    point_id: int
    xyz: tuple[float, ...]
    rgb: tuple[int, ...]
    track: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class ToyModel:
    """A whole model."""

    cameras: tuple[ToyCamera, ...]
    images: tuple[ToyImage, ...]
    points: tuple[ToyPoint, ...]

    def with_ids(self, image_ids: Iterable[int], point_ids: Iterable[int]) -> ToyModel:
        """The same model under other ids, one per image and per point."""
        image_of = dict(zip((image.image_id for image in self.images), image_ids, strict=True))
        point_of = dict(zip((point.point_id for point in self.points), point_ids, strict=True)) | {-1: -1}
        images = tuple(
            replace(
                image,
                image_id=image_of[image.image_id],
                observed=tuple((x, y, point_of[point]) for x, y, point in image.observed),
            )
            for image in self.images
        )
        points = tuple(
            replace(
                point,
                point_id=point_of[point.point_id],
                track=tuple((image_of[image], index) for image, index in point.track),
            )
            for point in self.points
        )
        return replace(self, images=images, points=points)

    def without_tracks(self) -> ToyModel:
        """Points and images as they are, no observation anywhere."""
        images = tuple(replace(image, observed=()) for image in self.images)
        return replace(self, images=images, points=tuple(replace(point, track=()) for point in self.points))

    def unseen_by(self, image_id: int) -> ToyModel:
        """The same model in which one image observes nothing."""
        images = tuple(replace(image, observed=()) if image.image_id == image_id else image for image in self.images)
        points = tuple(
            replace(point, track=tuple(element for element in point.track if element[0] != image_id))
            for point in self.points
        )
        return replace(self, images=images, points=points)


@cache
def toy_model(views: int = 12, points: int = 300, seed: int = 0) -> ToyModel:
    """Views 1…views in name order on an arc of 120 degrees; observation 0 of each image belongs to no point."""
    rng = np.random.default_rng(seed)
    poses = [_pose(angle) for angle in np.radians(np.linspace(-60, 60, views))]
    xyz = rng.normal(size=(points, 3))
    xyz *= (1.3 + 0.2 * rng.random((points, 1))) / np.linalg.norm(xyz, axis=1, keepdims=True)
    rgb = np.clip(128 + 70 * xyz + rng.normal(0, 25, xyz.shape), 0, 255).astype(int)
    tracks: list[list[tuple[int, int]]] = [[] for _ in xyz]
    images = []
    for view, (quaternion, rotation, translation) in enumerate(poses, start=1):
        pixels, _, shown = _project(xyz, rotation, translation)
        observed = [(0.5, 0.5, -1)]
        for point in np.flatnonzero(shown):
            tracks[point].append((view, len(observed)))
            observed.append((*map(float, pixels[point]), int(point) + 1))
        images.append(
            ToyImage(
                image_id=view,
                name=f"view_{view:02d}.png",
                quaternion=quaternion,
                translation=tuple(map(float, translation)),
                observed=tuple(observed),
            )
        )
    rows = tuple(
        ToyPoint(
            point_id=row + 1,
            xyz=tuple(map(float, xyz[row])),
            rgb=tuple(map(int, rgb[row])),
            track=tuple(tracks[row]),
        )
        for row in range(points)
    )
    return ToyModel(cameras=(ToyCamera(),), images=tuple(images), points=rows)


def _pose(angle: float) -> tuple[tuple[float, ...], NDArray, NDArray]:
    """Quaternion wxyz, rotation and translation of a camera 4 units away that looks at the origin."""
    rotation = np.array([[np.cos(angle), 0, -np.sin(angle)], [0, 1, 0], [np.sin(angle), 0, np.cos(angle)]], np.float64)
    quaternion = (float(np.cos(angle / 2)), 0.0, float(-np.sin(angle / 2)), 0.0)
    return quaternion, rotation, np.array([0.0, 0.0, 4.0])


def _project(xyz: NDArray, rotation: NDArray, translation: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """`_projected`, remembered: many tests draw the same views."""
    return _projected(xyz.tobytes(), rotation.tobytes(), translation.tobytes())


@cache
def _projected(*arrays: bytes) -> tuple[NDArray, NDArray, NDArray]:
    """Pixels [P, 2], the index of the disc in front at each pixel [HEIGHT, WIDTH] (-1: none), and whether a
    point's own disc is in front where it projects [P]."""
    xyz, rotation, translation = (np.frombuffer(array).reshape(-1, 3) for array in arrays)
    local = xyz @ rotation.T + translation
    pixels = FOCAL * local[:, :2] / local[:, 2:] + np.array([WIDTH / 2, HEIGHT / 2])
    columns, rows = np.meshgrid(np.arange(WIDTH) + 0.5, np.arange(HEIGHT) + 0.5)
    front = np.full((HEIGHT, WIDTH), -1)
    for point in np.argsort(-local[:, 2]):
        away = np.hypot(columns - pixels[point, 0], rows - pixels[point, 1])
        front[away < FOCAL * DISC / local[point, 2]] = point
    inside = np.all((pixels >= 0) & (pixels < (WIDTH, HEIGHT)), axis=1)
    at = np.clip(pixels.astype(int), 0, (WIDTH - 1, HEIGHT - 1))
    return pixels, front, inside & (front[at[:, 1], at[:, 0]] == np.arange(len(xyz)))


def draw(model: ToyModel, image: ToyImage) -> NDArray[np.uint8]:
    """The view as the model describes it: uint8 [HEIGHT, WIDTH, 3], discs on dark grey."""
    w, _, y, _ = image.quaternion
    _, rotation, _ = _pose(-2 * float(np.arctan2(y, w)))
    xyz = np.array([point.xyz for point in model.points])
    rgb = np.array([(40, 40, 40), *(point.rgb for point in model.points)], np.uint8)
    return rgb[_project(xyz, rotation, np.array(image.translation))[1] + 1]


def write_toy_scene(folder: Path, model: ToyModel | None = None, kinds: Kinds = ("binary",)) -> ToyModel:
    """Write images and sparse/0 below `folder`; returns the model."""
    model = model or toy_model()
    write_model(folder / "sparse" / "0", model, kinds)
    write_images(folder / "images", model)
    return model


def write_images(folder: Path, model: ToyModel) -> None:
    """One PNG per image of the model."""
    for image in model.images:
        file = folder / image.name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw(model, image)).save(file)


def write_model(folder: Path, model: ToyModel, kinds: Kinds = ("binary",)) -> None:
    """The three files of each kind."""
    folder.mkdir(parents=True, exist_ok=True)
    if "binary" in kinds:
        for name, data in binary_files(model).items():
            (folder / name).write_bytes(data)
    if "text" in kinds:
        for name, text in text_files(model).items():
            (folder / name).write_text(text)


def binary_files(model: ToyModel) -> dict[str, bytes]:
    """File name → bytes."""
    cameras = [
        struct.pack("<IiQQ", camera.camera_id, NUMBERS[camera.model], camera.width, camera.height)
        + struct.pack(f"<{len(camera.params)}d", *camera.params)
        for camera in model.cameras
    ]
    images = [
        struct.pack("<I7dI", image.image_id, *image.quaternion, *image.translation, image.camera_id)
        + image.name.encode()
        + b"\0"
        + struct.pack("<Q", len(image.observed))
        + b"".join(struct.pack("<ddq", *observed) for observed in image.observed)
        for image in model.images
    ]
    points = [
        struct.pack("<Q3d3BdQ", point.point_id, *point.xyz, *point.rgb, 0.5, len(point.track))
        + b"".join(struct.pack("<II", *element) for element in point.track)
        for point in model.points
    ]
    tables = {"cameras.bin": cameras, "images.bin": images, "points3D.bin": points}
    return {name: struct.pack("<Q", len(rows)) + b"".join(rows) for name, rows in tables.items()}


def text_files(model: ToyModel) -> dict[str, str]:
    """File name → text, with COLMAP's comment lines."""
    cameras = [
        _line(camera.camera_id, camera.model, camera.width, camera.height, *map(repr, camera.params))
        for camera in model.cameras
    ]
    images = [
        _line(image.image_id, *map(repr, (*image.quaternion, *image.translation)), image.camera_id, image.name)
        + _line(*(value for x, y, point in image.observed for value in (repr(x), repr(y), point)))
        for image in model.images
    ]
    points = [
        _line(point.point_id, *map(repr, point.xyz), *point.rgb, 0.5, *(value for e in point.track for value in e))
        for point in model.points
    ]
    return {
        "cameras.txt": "# Camera list with one line of data per camera:\n" + "".join(cameras),
        "images.txt": "# Image list with two lines of data per image:\n" + "".join(images),
        "points3D.txt": "# 3D point list with one line of data per point:\n" + "".join(points),
    }


def _line(*fields: object) -> str:
    return " ".join(map(str, fields)) + "\n"


if __name__ == "__main__":
    write_toy_scene(Path(sys.argv[1]), kinds=("binary", "text"))
