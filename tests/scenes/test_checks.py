"""Every validator of a COLMAP scene, seen failing on the input it must reject."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.scenes import SceneSpec, load_scene
from harness.scenes.colmap.checks import rotations
from odin.errors import InputError

from .toy_scene import ToyCamera, ToyModel, toy_model, write_images, write_model, write_toy_scene

Change = Callable[[ToyModel], ToyModel]


def first_image(**changes: object) -> Change:
    return lambda model: replace(model, images=(replace(model.images[0], **changes), *model.images[1:]))


def first_point(**changes: object) -> Change:
    return lambda model: replace(model, points=(replace(model.points[0], **changes), *model.points[1:]))


def camera(**changes: object) -> Change:
    return lambda model: replace(model, cameras=(ToyCamera(**changes),))


BROKEN: dict[str, tuple[Change, str]] = {
    "no images": (lambda model: replace(model, images=()), "no registered images"),
    "no points": (lambda model: replace(model, points=()), "12 images and no points"),
    "two of one name": (first_image(name="view_02.png"), "occurs more than once: view_02.png"),
    "case clash": (first_image(name="VIEW_02.png"), "upper and lower case: VIEW_02.png, view_02.png"),
    "leads out": (first_image(name="../view_01.png"), "'../view_01.png' is not a path below"),
    "absolute": (first_image(name="/view_01.png"), "'/view_01.png' is not a path below"),
    "two of one image id": (first_image(image_id=2), "image id 2 is used by more than one image"),
    "two of one camera id": (
        lambda model: replace(model, cameras=(ToyCamera(), ToyCamera())),
        "camera id 1 is used by more than one camera",
    ),
    "unknown camera": (first_image(camera_id=8), "view_01.png uses camera 8, which the model does not have"),
    "NaN pose": (first_image(translation=(0.0, math.nan, 4.0)), "a pose with a number that is not finite"),
    "endless pose": (first_image(translation=(0.0, 1e300, 4.0)), "a pose with a number that is not finite"),
    "NaN quaternion": (first_image(quaternion=(math.nan, 0.0, 0.0, 0.0)), "not finite"),
    "zero quaternion": (first_image(quaternion=(0.0, 0.0, 0.0, 0.0)), "quaternion whose length is not 1"),
    "long quaternion": (first_image(quaternion=(1.0, 0.2, 0.0, 0.0)), "1 image.* length is not 1: view_01"),
    "NaN point": (first_point(xyz=(0.0, math.nan, 0.0)), "coordinate that is not finite.* is point 1"),
    "infinite point": (first_point(xyz=(math.inf, 0.0, 0.0)), "coordinate that is not finite"),
    "zero focal length": (camera(params=(0.0, 44.0, 24.0, 18.0)), "camera 1 .* fx=0 fy=44"),
    "NaN centre": (camera(params=(44.0, 44.0, math.nan, 18.0)), "cx=nan"),
    "no width": (camera(width=0), "0x36"),
    "absurd width": (camera(width=2**40), "sizes and focal lengths must be positive and finite"),
    "other aspect": (camera(width=60), r"view_01.png is 48x36 pixels, but its camera 1 is 60x36"),
    "turned": (camera(width=36, height=48), "turned by 90 degrees against the camera"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_model_is_refused(tmp_path: Path, case: str) -> None:
    change, message = BROKEN[case]
    model = toy_model()
    write_images(tmp_path / "images", model)
    write_model(tmp_path / "sparse/0", change(model))
    with pytest.raises(InputError, match=message) as raised:
        load_scene(SceneSpec(path=str(tmp_path)))
    assert str(tmp_path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_points_of_another_model_are_refused(tmp_path: Path) -> None:
    model = toy_model()
    write_toy_scene(tmp_path, model)
    other = model.with_ids(range(1, 13), range(5001, 5301))
    write_model(tmp_path / "other", other)
    shutil.copy(tmp_path / "other/points3D.bin", tmp_path / "sparse/0/points3D.bin")
    with pytest.raises(InputError, match=r"none of the .* track elements .* different models"):
        load_scene(SceneSpec(path=str(tmp_path)))


def test_a_missing_scene_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        load_scene(SceneSpec(path=str(tmp_path / "nowhere")))
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file"):
        load_scene(SceneSpec(path=str(tmp_path / "file")))


def test_a_missing_image_folder_lists_the_others(tmp_path: Path) -> None:
    write_toy_scene(tmp_path)
    with pytest.raises(InputError, match="image folder images_4 does not exist; there is images"):
        load_scene(SceneSpec(path=str(tmp_path), images="images_4"))
    shutil.rmtree(tmp_path / "images")
    with pytest.raises(InputError, match=r"no folder named images\*"):
        load_scene(SceneSpec(path=str(tmp_path)))


@pytest.mark.parametrize(
    ("left", "found"), [((), "nothing in either folder"), (("cameras.bin",), "found sparse/0/cameras.bin")]
)
def test_an_incomplete_model_lists_what_was_looked_for(tmp_path: Path, left: tuple[str, ...], found: str) -> None:
    write_toy_scene(tmp_path)
    for file in (tmp_path / "sparse/0").iterdir():
        if file.name not in left:
            file.unlink()
    with pytest.raises(InputError, match=found) as raised:
        load_scene(SceneSpec(path=str(tmp_path)))
    assert "sparse/0/{cameras,images,points3D}{.bin,.txt}" in str(raised.value)


def test_rotations_are_rotations_and_ignore_the_length() -> None:
    quaternions = np.random.default_rng(0).normal(size=(50, 4))
    matrices = rotations(quaternions)
    np.testing.assert_allclose(
        matrices @ matrices.transpose(0, 2, 1), np.broadcast_to(np.eye(3), (50, 3, 3)), atol=1e-14
    )
    np.testing.assert_allclose(np.linalg.det(matrices), 1.0)
    np.testing.assert_allclose(rotations(3.0 * quaternions), matrices, atol=1e-14)
