"""The orbit capture: a dome of cameras round a table, and true geometry that agrees with the pictures' ray caster."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.scenes import OrbitSpec, SceneSpec, load_scene
from harness.scenes.procedural.orbit import orbit_blueprint
from harness.scenes.procedural.orbit_layout import TOP
from harness.scenes.procedural.raycast import RayCaster
from harness.scenes.procedural.truth import Truth, true_geometry
from odin.errors import InputError
from pipelines.camera import Camera

BLUEPRINT = orbit_blueprint(OrbitSpec(views=12, width=48, height=36, points=200))
CASTER = RayCaster(BLUEPRINT.mesh)


def truth(camera: Camera) -> Truth:
    return true_geometry(BLUEPRINT.mesh, CASTER, camera)


def points(camera: Camera, found: Truth) -> np.ndarray:
    """World positions of the pixels that hit, [n, 3]."""
    x, y = np.meshgrid(np.arange(camera.width) + 0.5, np.arange(camera.height) + 0.5)
    rays = np.stack([(x - camera.cx) / camera.fx, (y - camera.cy) / camera.fy, np.ones_like(x)], axis=-1)
    return (rays * found.depth[..., None])[found.hit] @ camera.rotation + camera.centre


def test_cameras_stand_on_a_dome_and_look_at_the_table() -> None:
    cameras = orbit_blueprint(OrbitSpec()).cameras
    assert len(cameras) == 96 and [c.name for c in cameras] == sorted(c.name for c in cameras)
    for camera in cameras:
        assert camera.centre[2] > TOP + 0.5
        local = camera.rotation @ np.array([0, 0, TOP]) + camera.translation
        assert abs(local[0] / local[2]) < 0.1 and 1.5 < local[2] < 2.2


def test_true_depths_lie_on_the_mesh_and_normals_face_the_camera() -> None:
    for camera in BLUEPRINT.cameras[::5]:
        found = truth(camera)
        where = points(camera, found)
        assert found.hit.mean() > 0.5
        assert where[:, 2].min() > -1e-6 and where[:, 2].max() < TOP + 0.45
        assert np.allclose(np.linalg.norm(found.normal[found.hit], axis=1), 1)
        assert not found.normal[~found.hit].any()
        # Floor and table top: the normal is up.
        flat = (np.abs(where[:, 2]) < 1e-6) | (np.abs(where[:, 2] - TOP) < 1e-6)
        up = found.normal[found.hit] @ camera.rotation
        assert flat.mean() > 0.3 and np.median(up[flat, 2]) == pytest.approx(1.0)


def test_normals_agree_with_the_depth_map() -> None:
    """Central differences of the true depth give the true normal on flat ground."""
    camera = BLUEPRINT.cameras[9]
    found = truth(camera)
    x, y = np.meshgrid(np.arange(camera.width) + 0.5, np.arange(camera.height) + 0.5)
    rays = np.stack([(x - camera.cx) / camera.fx, (y - camera.cy) / camera.fy, np.ones_like(x)], axis=-1)
    with np.errstate(invalid="ignore"):
        where = rays * found.depth[..., None]
        normal = np.cross(where[2:, 1:-1] - where[:-2, 1:-1], where[1:-1, 2:] - where[1:-1, :-2])
        cosine = (normal * found.normal[1:-1, 1:-1]).sum(2) / np.linalg.norm(normal, axis=2)
    assert np.nanmedian(cosine) > 0.999


def test_pictures_have_texture_and_points_have_tracks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODIN_CACHE", str(tmp_path))
    path = "orbit?views=12&width=48&height=36&points=200"
    capture = load_scene(SceneSpec(path=path))
    assert len(capture.points) == 200 and capture.tracks.view_count == 12
    for image in capture.images:
        assert image.std() > 20
    again = load_scene(SceneSpec(path=path))
    assert again.manifest == capture.manifest
    assert all(np.array_equal(a, b) for a, b in zip(again.images, capture.images, strict=True))
    assert load_scene(SceneSpec(path=path.replace("200", "201"))).manifest != capture.manifest


def test_too_few_views_are_refused() -> None:
    with pytest.raises(InputError, match="5 views are too few"):
        load_scene(SceneSpec(path="orbit?views=5"))
