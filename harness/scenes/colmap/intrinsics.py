"""From COLMAP's camera models to pinhole intrinsics at the size of the image that is really there."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.scenes.colmap.layout import shortened
from harness.scenes.colmap.model import Model, ModelCamera
from odin.errors import InputError

# Leading pinhole parameters: 3 = f cx cy, 4 = fx fy cx cy. All others are distortion and must be 0.
# Fisheye models are absent on purpose: with zero distortion they are still not pinholes.
_PINHOLE_PARAMS = {
    "SIMPLE_PINHOLE": 3,
    "PINHOLE": 4,
    "SIMPLE_RADIAL": 3,
    "RADIAL": 3,
    "OPENCV": 4,
    "FULL_OPENCV": 4,
}
# A side may have been rounded up or down by so much: by floor, by ceil, to nearest. Both sides by the same.
_ROUNDINGS = ((0.0, 1.0), (1.0, 0.0), (0.5, 0.5))
_LARGEST_SIDE = 1 << 20

_TURNED = "It is turned by 90 degrees against the camera: turn the file back to how COLMAP saw it."
_OTHER = (
    "Use the images the model was made from (for an undistorted model, those that image_undistorter wrote), "
    "or copies scaled without cropping."
)

Size = tuple[int, int]
Intrinsics = tuple[float, float, float, float]


def check_cameras(model: Model, rows: NDArray[np.int64], image_folder: Path) -> None:
    """Raise InputError for a camera that is distorted or whose numbers cannot be a camera.

    Only cameras of the images in `rows` of the model count. image_folder goes into the command to run.
    """
    used = Counter(model.images[row].camera_id for row in rows)
    cameras = [model.camera_by_id[key] for key in sorted(used)]
    bent = [camera for camera in cameras if not _is_pinhole(camera)]
    if bent:
        listed = [f"{_described(camera)}, used by {used[camera.camera_id]} image(s)" for camera in bent]
        raise InputError(
            f"Model {model.folder}: {shortened(listed)}. Training needs pinhole images without distortion. "
            f"Run: colmap image_undistorter --image_path {image_folder} --input_path {model.folder} "
            f"--output_path {image_folder.parent}_undistorted and use that folder."
        )
    for camera in cameras:
        _check_numbers(camera, model.folder)


def _is_pinhole(camera: ModelCamera) -> bool:
    leading = _PINHOLE_PARAMS.get(camera.model)
    return leading is not None and all(value == 0.0 for value in camera.params[leading:])


def _described(camera: ModelCamera) -> str:
    leading = _PINHOLE_PARAMS.get(camera.model)
    described = f"camera {camera.camera_id} is {camera.model}"
    if leading is None:
        return described
    return f"{described} with distortion {', '.join(f'{value:g}' for value in camera.params[leading:])}"


def _check_numbers(camera: ModelCamera, model: Path) -> None:
    fx, fy, cx, cy = pinhole(camera)
    sides = 0 < camera.width < _LARGEST_SIDE and 0 < camera.height < _LARGEST_SIDE
    if not (sides and all(map(math.isfinite, (fx, fy, cx, cy))) and fx > 0 and fy > 0):
        raise InputError(
            f"Model {model}: camera {camera.camera_id} ({camera.model}, {camera.width}x{camera.height}) has "
            f"fx={fx:g} fy={fy:g} cx={cx:g} cy={cy:g}: sizes and focal lengths must be positive and finite. "
            "Export the model again."
        )


def pinhole(camera: ModelCamera) -> Intrinsics:
    """fx, fy, cx, cy in pixels of the camera's own size."""
    if _PINHOLE_PARAMS[camera.model] == 3:
        f, cx, cy = camera.params[:3]
        return f, f, cx, cy
    fx, fy, cx, cy = camera.params[:4]
    return fx, fy, cx, cy


def fitted(camera: ModelCamera, size: Size, file: Path) -> Intrinsics:
    """fx, fy, cx, cy in pixels of an image of `size` = (width, height), which may be a scaled-down copy.

    x and y are scaled apart, because each side of the copy was rounded to whole pixels.
    Raises InputError when no scale explains both sides.
    """
    own = (camera.width, camera.height)
    if not same_aspect(own, size):
        raise InputError(
            f"{file} is {size[0]}x{size[1]} pixels, but its camera {camera.camera_id} is {own[0]}x{own[1]}, "
            f"which is not the same picture scaled. {_TURNED if same_aspect(own, size[::-1]) else _OTHER}"
        )
    fx, fy, cx, cy = pinhole(camera)
    sx, sy = size[0] / own[0], size[1] / own[1]
    return fx * sx, fy * sy, cx * sx, cy * sy


def same_aspect(camera: Size, image: Size) -> bool:
    """Whether one scale takes the camera's sides (width, height) to the image's, up to rounding."""
    return any(
        max((side - up) / own for own, side in zip(camera, image, strict=True))
        <= min((side + down) / own for own, side in zip(camera, image, strict=True))
        for up, down in _ROUNDINGS
    )
