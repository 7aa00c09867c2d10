"""The city capture: any number of views, constant ground per view, neighbours overlap and strangers do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.scenes import CitySpec, SceneSpec, load_scene
from harness.scenes.procedural.city import city_blueprint, city_cameras, city_side
from harness.scenes.procedural.city_layout import PITCH, build_city
from odin.errors import InputError


@pytest.mark.parametrize("views", [4, 37, 256, 2048, 5000])
def test_any_number_of_views(views: int) -> None:
    cameras = city_cameras(CitySpec(views=views))
    assert len(cameras) == views
    assert [c.name for c in cameras] == sorted(c.name for c in cameras)
    side = city_side(views)
    # Every camera looks at ground inside the city (the axis meets z = 0 there).
    for camera in cameras[:: max(1, views // 50)]:
        axis = camera.rotation[2]
        ground = camera.centre - camera.centre[2] / axis[2] * axis
        assert -PITCH < ground[0] < side + PITCH and -PITCH < ground[1] < side + PITCH


def test_a_block_is_the_same_in_a_city_of_any_size() -> None:
    small, large = build_city(1), build_city(2)
    assert np.array_equal(small.vertices, large.vertices[: len(small.vertices)])


def test_neighbours_share_points_and_far_views_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODIN_CACHE", str(tmp_path))
    capture = load_scene(SceneSpec(path="city?views=64&width=32&height=24&points=600"))
    assert len(capture.images) == 64 and len(capture.points) == 600
    assert all(image.std() > 12 for image in capture.images)
    seen = np.zeros((600, 64), bool)
    seen[np.repeat(np.arange(600), np.diff(capture.tracks.offsets)), capture.tracks.views] = True
    shared = seen.T.astype(int) @ seen.astype(int)
    centres = np.array([camera.centre for camera in capture.cameras])
    distance = np.linalg.norm(centres[:, None] - centres[None], axis=2)
    assert shared[(distance > 0) & (distance < 8)].mean() > 5
    assert shared[distance > 55].mean() < 0.05
    assert 3 < seen.sum() / 600 < 12


def test_meshes_grow_with_the_views() -> None:
    small, large = (len(city_blueprint(CitySpec(views=v)).mesh.faces) for v in (64, 1024))
    assert 8 * small < large < 24 * small


def test_too_few_views_are_refused() -> None:
    with pytest.raises(InputError, match="views is 3; give 4 or more"):
        load_scene(SceneSpec(path="city?views=3"))
