"""A COLMAP scene folder as a Capture: read, check, attach images. Nothing is written below the folder."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.scenes.colmap import layout
from harness.scenes.colmap.checks import check_model, poses, rotations
from harness.scenes.colmap.images import Picture, read_picture
from harness.scenes.colmap.intrinsics import check_cameras, fitted
from harness.scenes.colmap.link import link_tracks
from harness.scenes.colmap.model import Model
from harness.scenes.spec import Progress, SceneSpec, folder_name
from harness.scenes.split import split_views
from odin.tracks import Tracks
from pipelines.camera import Camera
from pipelines.capture import Capture


def load_colmap(spec: SceneSpec, *, progress: Progress) -> Capture:
    """Load the scene folder spec.path: views in name order, points in id order. Raises InputError."""
    scene = Path(spec.path).expanduser()
    layout.check_scene_folder(scene)
    image_folder = layout.find_image_folder(scene, spec.images)
    folder, suffix = layout.find_model(scene)
    model = layout.read_model(folder, suffix)
    check_model(model)

    order = np.array(sorted(range(len(model.images)), key=lambda row: model.images[row].name))
    kept = _kept_views([model.images[row].name for row in order], image_folder, spec, progress)
    check_cameras(model, order[kept], image_folder)
    train, test = split_views(len(kept), spec.test_every, str(scene))
    cameras, pictures = _views(model, order[kept], image_folder, progress)
    tracks = _tracks(model, order, progress).restrict(kept)
    name = folder_name(scene)
    progress(f"{name}: {len(train)} training and {len(test)} test views, {len(model.points.ids)} points")
    return Capture(
        name=name,
        cameras=cameras,
        images=tuple(picture.pixels for picture in pictures),
        train=train,
        test=test,
        points=model.points.xyz,
        colours=model.points.rgb,
        tracks=tracks,
        manifest=_manifest(layout.model_files(folder, suffix), cameras, pictures, spec),
    )


def _kept_views(names: list[str], folder: Path, spec: SceneSpec, progress: Progress) -> NDArray[np.int64]:
    """Indices of the views that are loaded, int64 ascending."""
    missing = layout.missing_images(folder, names)
    if missing and (not spec.skip_missing or len(missing) == len(names)):
        raise layout.missing_error(folder, missing, len(names))
    if missing:
        progress(f"{folder}: left out {len(missing)} views without image file: {layout.shortened(missing)}")
    absent = set(missing)
    return np.array([view for view, name in enumerate(names) if name not in absent], np.int64)


def _views(
    model: Model, rows: NDArray[np.int64], folder: Path, progress: Progress
) -> tuple[tuple[Camera, ...], list[Picture]]:
    """Camera and picture of each image row of the model."""
    quaternions, translations = poses(model)
    matrices = rotations(quaternions)
    cameras, pictures = [], []
    for row in rows:
        camera, picture = _view(model, row, folder, matrices[row], translations[row])
        cameras.append(camera)
        pictures.append(picture)
    blended = [camera.name for camera, picture in zip(cameras, pictures, strict=True) if picture.blended]
    if blended:
        names = layout.shortened(blended)
        progress(f"{folder}: {len(blended)} images have transparent pixels, put on black: {names}")
    return tuple(cameras), pictures


def _view(
    model: Model, row: int, folder: Path, rotation: NDArray[np.float64], translation: NDArray[np.float64]
) -> tuple[Camera, Picture]:
    image = model.images[row]
    own = model.camera_by_id[image.camera_id]
    file = folder / image.name
    picture = read_picture(file, (own.width, own.height))
    fx, fy, cx, cy = fitted(own, picture.size, file)
    camera = Camera(
        name=image.name,
        width=picture.size[0],
        height=picture.size[1],
        fx=fx,
        fy=fy,
        cx=cx,
        cy=cy,
        rotation=rotation,
        translation=translation,
    )
    return camera, picture


def _tracks(model: Model, order: NDArray[np.int64], progress: Progress) -> Tracks:
    """Tracks over all views of the model in name order, also those without an image file."""
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    linked = link_tracks(model, rank)
    if linked.unregistered or linked.unlisted:
        progress(
            f"{model.folder}: left out {linked.unregistered} track elements of images that are not "
            f"registered and {linked.unlisted} that their image does not list"
        )
    return linked.tracks


def _manifest(files: list[Path], cameras: tuple[Camera, ...], pictures: list[Picture], spec: SceneSpec) -> str:
    """sha256 over the bytes of the model, every loaded image (name, size, bytes) and the split.

    The path is left out (a copied scene is the same scene), skip_missing too: the image list says it all.
    """
    digest = hashlib.sha256(f"colmap 1 {spec.images} {spec.test_every}\n".encode())
    for file in files:
        digest.update(f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    for camera, picture in zip(cameras, pictures, strict=True):
        digest.update(f"{camera.name} {picture.size} {picture.digest}\n".encode())
    return digest.hexdigest()
