"""A capture as the files that the forks' scene readers open: COLMAP text, a PLY of points, lossless images.

Forks read a scene from a folder, and write into it what they find missing. They get a folder of their own, with the
training views under names that are their numbers, so that a view is found again by its image_name, and with the
points that a run starts from. Test views are rendered by camera, not by file.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
from filelock import FileLock
from PIL import Image
from platformdirs import user_cache_dir
from plyfile import PlyData, PlyElement
from scipy.spatial.transform import Rotation

from odin.errors import InputError
from pipelines.capture import Capture
from pipelines.reference.initialise import subsample
from pipelines.reference.settings import Settings

VERSION = 1  # of what is written
_VERTEX = [(name, "f4") for name in ("x", "y", "z", "nx", "ny", "nz")] + [(c, "u1") for c in ("red", "green", "blue")]


def view_name(view: int) -> str:
    """Image file of a training view; without its suffix the image_name of some forks."""
    return f"{view:06d}.png"


def view_number(image_name: str) -> int:
    """The training view of a fork's camera."""
    return int(image_name.partition(".")[0])


def staged(capture: Capture, settings: Settings) -> Path:
    """The folder, below the user's cache; made at first use by whichever rank comes first. Raises InputError where the
    capture starts from fewer than four points."""
    keep = subsample(len(capture.points), settings)
    if len(keep) < 4:
        raise InputError(
            f"Scene {capture.name!r} has {len(capture.points)} SfM points, of which {len(keep)} are used; a fork needs "
            "at least 4 to set initial sizes. Check the COLMAP model or raise pipeline.initial_subsample."
        )
    points = (capture.points[keep] * (1.0 + settings.perturb)).astype(np.float32)
    digest = hashlib.sha256(f"{VERSION} {capture.manifest} {len(capture.train)}".encode())
    digest.update(points.tobytes() + capture.train.tobytes())
    root = Path(os.environ.get("ODIN_CACHE") or user_cache_dir("odin-bench")).expanduser() / "forks"
    root.mkdir(parents=True, exist_ok=True)
    folder = root / digest.hexdigest()[:16]
    with FileLock(folder.with_suffix(".lock")):
        if not folder.is_dir():
            made = Path(tempfile.mkdtemp(dir=root))
            try:
                _write(made, capture, points, capture.colours[keep])
                made.rename(folder)
            finally:
                shutil.rmtree(made, ignore_errors=True)
    return folder


def _write(folder: Path, capture: Capture, points: np.ndarray, colours: np.ndarray) -> None:
    model = folder / "sparse" / "0"
    model.mkdir(parents=True)
    (folder / "images").mkdir()
    lenses, poses = [], []
    for view, index in enumerate(capture.train):
        camera = capture.cameras[index]
        numbers = (camera.fx, camera.fy, camera.cx, camera.cy)
        lenses.append(f"{view + 1} PINHOLE {camera.width} {camera.height} {_text(numbers)}")
        w_last = Rotation.from_matrix(camera.rotation).as_quat()
        pose = _text((w_last[3], *w_last[:3], *camera.translation))
        poses.append(f"{view + 1} {pose} {view + 1} {view_name(view)}\n")
        Image.fromarray(capture.images[index]).save(folder / "images" / view_name(view), compress_level=1)
    (model / "cameras.txt").write_text("\n".join(lenses) + "\n", encoding="utf-8")
    (model / "images.txt").write_text("\n".join(poses) + "\n", encoding="utf-8")
    vertices = np.zeros(len(points), _VERTEX)
    for axis, name in enumerate("xyz"):
        vertices[name] = points[:, axis]
    for channel, name in enumerate(("red", "green", "blue")):
        vertices[name] = colours[:, channel]
    PlyData([PlyElement.describe(vertices, "vertex")]).write(str(model / "points3D.ply"))


def _text(numbers: tuple) -> str:
    return " ".join(repr(float(number)) for number in numbers)
