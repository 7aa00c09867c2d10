"""The rooms capture: furnished, closed, with the co-visibility of rooms (the rest: test_procedural.py)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.scenes import RoomsSpec, SceneSpec, load_scene
from harness.scenes.procedural.mesh import MeshBuilder
from harness.scenes.procedural.raycast import RayCaster
from harness.scenes.procedural.rooms import rooms_scene
from harness.scenes.procedural.rooms_plan import floor_plan
from harness.scenes.procedural.texture import PATTERNS, Material
from harness.scenes.procedural.tracks import sample_points
from odin.errors import InputError

TINY = "rooms?views=16&width=64&height=48&points=600&rooms=2"
SPEC = RoomsSpec(views=16, width=64, height=48, points=600, rooms=2)


def test_the_default_is_the_capture_of_the_design() -> None:
    spec = RoomsSpec()
    assert (spec.views, spec.width, spec.height, spec.points, spec.rooms) == (96, 120, 90, 8000, 3)
    cameras, _ = rooms_scene(spec)
    assert len(cameras) == 96


def test_co_visibility_has_the_structure_of_rooms() -> None:
    # The cameras of the default, with fewer points and no pictures: tracks do not depend on pixels.
    cameras, mesh = rooms_scene(RoomsSpec())
    seen = sample_points(mesh, RayCaster(mesh), cameras, 2000, 0).seen.astype(int)
    shared = seen.T @ seen
    room = np.array([int(camera.name[4:6]) for camera in cameras])
    pairs = np.triu_indices(len(room), 1)
    apart = np.abs(room[:, None] - room)[pairs]
    zero = shared[pairs] == 0
    assert zero[apart == 0].mean() < 0.6 < zero[apart == 1].mean() < zero[apart == 2].mean()
    assert shared[pairs][apart == 0].mean() > 3 * shared[pairs][apart == 1].mean()
    assert 0.5 < zero.mean() < 0.8
    assert 5.0 < seen.sum(1).mean() < 8.0
    assert np.diag(shared).min() > 10


def test_cameras_stand_free_inside_their_room() -> None:
    spec = RoomsSpec()
    cameras, mesh = rooms_scene(spec)
    caster = RayCaster(mesh)
    plan = floor_plan(spec.rooms)
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(500, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for camera in cameras:
        home = plan[int(camera.name[4:6])]
        x, y, z = camera.centre
        assert home.x0 < x < home.x1 and home.y0 < y < home.y1 and 1.0 < z < 2.2
        faces, distance = caster.first_hits(camera.centre, directions)
        assert faces.min() >= 0, "a ray leaves the rooms: the shell has a hole"
        assert distance.min() > 0.25


def test_pictures_have_texture_and_no_holes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODIN_CACHE", str(tmp_path))
    for pixels in load_scene(SceneSpec(path=TINY)).images:
        assert pixels.max(2).min() > 8, "black pixels: the shell has a hole"
        assert pixels.std() > 12


def test_too_little_overlap_is_refused() -> None:
    cameras, mesh = rooms_scene(SPEC)
    with pytest.raises(InputError, match="overlap too little"):
        sample_points(mesh, RayCaster(mesh), cameras[:1], 50, 0)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_materials_have_several_tones_within_bounds(pattern: str) -> None:
    colours = ((0.9, 0.1, 0.1), (0.1, 0.8, 0.2), (0.1, 0.2, 0.7))
    material = Material(pattern=pattern, colours=colours, size=0.3, seed=5)
    axis = np.linspace(-3.0, 3.0, 150)
    uv = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    albedo = material.albedo(uv)
    assert albedo.shape == (*uv.shape[:1], 3)
    assert albedo.min() >= 0.0 and albedo.max() <= 1.0
    assert albedo.std(0).max() > 0.05
    np.testing.assert_array_equal(albedo, material.albedo(uv))


def test_shapes_face_outwards() -> None:
    builder = MeshBuilder()
    light = builder.light((0, 0, 5))
    material = Material(pattern="plain", colours=((1, 1, 1), (0, 0, 0)), size=1.0)
    builder.box((-1, -2, -3), (1, 2, 3), material, light)
    builder.turned((0.0, 0.0), [(0.0, -1.0), (0.5, 0.0), (0.0, 1.0)], material, light)
    mesh = builder.build()
    middle = mesh.corners.mean(1)
    assert np.all((mesh.normals * middle).sum(1) > 0)
    np.testing.assert_allclose(np.linalg.norm(mesh.normals, axis=1), 1.0)
