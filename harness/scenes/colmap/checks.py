"""Checks of a model against itself: ids, cameras, poses, points. Each raises one InputError."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from harness.scenes.colmap.layout import check_names, shortened
from harness.scenes.colmap.model import Model, printable
from odin.errors import InputError

# Three decimals per component, the least anyone writes, move the norm by up to 1e-3.
_NORM_TOLERANCE = 1e-2
# Squares of distances must fit into float32, which ends at 3e38.
_LARGEST = 1e15
_LOST = "that is not finite (or beyond 1e15)"


def check_model(model: Model) -> None:
    """Everything about a model that needs no image file. Raises InputError at the first problem."""
    _check_not_empty(model)
    check_names([image.name for image in model.images], model.folder)
    _check_ids(model)
    _check_poses(model)
    _check_points(model)


def _check_not_empty(model: Model) -> None:
    if not model.images:
        raise InputError(
            f"Model {model.folder} has no registered images: the reconstruction failed. Run COLMAP's mapper "
            "again, and look at its log."
        )
    if not len(model.points.ids):
        raise InputError(
            f"Model {model.folder} has {len(model.images)} images and no points. Training starts from the "
            "points; run colmap point_triangulator, or export the model with its points."
        )


def _check_ids(model: Model) -> None:
    _check_unrepeated(model, "image", (image.image_id for image in model.images))
    _check_unrepeated(model, "camera", (camera.camera_id for camera in model.cameras))
    lost = [image for image in model.images if image.camera_id not in model.camera_by_id]
    if lost:
        raise InputError(
            f"Model {model.folder}: image {printable(lost[0].name)} uses camera {lost[0].camera_id}, which the "
            f"model does not have ({len(lost)} such images). The cameras and images files do not belong together; "
            "copy both again."
        )


def _check_unrepeated(model: Model, kind: str, ids: Iterable[int]) -> None:
    repeated = [key for key, count in Counter(ids).items() if count > 1]
    if repeated:
        raise InputError(
            f"Model {model.folder}: {kind} id {repeated[0]} is used by more than one {kind}. Export the model again."
        )


def _check_poses(model: Model) -> None:
    quaternions, translations = poses(model)
    _refuse(model, _beyond(np.hstack([quaternions, translations])), f"a pose with a number {_LOST}")
    length = np.linalg.norm(quaternions, axis=1)
    _refuse(model, np.abs(length - 1.0) > _NORM_TOLERANCE, "a rotation quaternion whose length is not 1")


def _beyond(rows: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Rows with a value that is NaN, infinite or beyond _LARGEST, [N]."""
    return np.any(~(np.abs(rows) <= _LARGEST), axis=1)


def _refuse(model: Model, bad: NDArray[np.bool_], what: str) -> None:
    if bad.any():
        names = [image.name for image, is_bad in zip(model.images, bad, strict=True) if is_bad]
        raise InputError(
            f"Model {model.folder}: {len(names)} image(s) have {what}: {shortened(names)}. "
            "Export the model again, or remove these images from it."
        )


def _check_points(model: Model) -> None:
    bad = _beyond(model.points.xyz)
    if bad.any():
        raise InputError(
            f"Model {model.folder}: {int(bad.sum())} point(s) have a coordinate {_LOST}, the first is point "
            f"{model.points.ids[bad][0]}. Remove them from the model, or export it again."
        )


def poses(model: Model) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Quaternions wxyz float64 [N, 4] as written, and translations float64 [N, 3], in file order."""
    quaternions = np.array([image.quaternion for image in model.images], np.float64)
    return quaternions, np.array([image.translation for image in model.images], np.float64)


def rotations(quaternions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rotation matrices float64 [N, 3, 3] of quaternions wxyz [N, 4], normalised first."""
    w, x, y, z = (quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True)).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), -1, 0)
