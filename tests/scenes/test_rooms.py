"""The procedural capture: deterministic, truly occluded, with the co-visibility of rooms."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.scenes import RoomsSpec, SceneSpec, load_scene
from harness.scenes.procedural import rooms as module
from harness.scenes.procedural.mesh import MeshBuilder, SceneMesh
from harness.scenes.procedural.raycast import RayCaster
from harness.scenes.procedural.rooms import rooms_scene
from harness.scenes.procedural.rooms_plan import floor_plan
from harness.scenes.procedural.texture import PATTERNS, Material
from harness.scenes.procedural.tracks import NOISE, observed, sample_points
from odin.errors import InputError
from pipelines.camera import Camera
from pipelines.capture import Capture

TINY = "rooms?views=16&width=64&height=48&points=600&rooms=2"
SPEC = RoomsSpec(views=16, width=64, height=48, points=600, rooms=2)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def use_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODIN_CACHE", str(cache))


def tiny(**changes: object) -> Capture:
    return load_scene(SceneSpec(path=TINY, **changes))


@pytest.fixture(scope="module")
def scene() -> tuple[tuple[Camera, ...], SceneMesh, RayCaster]:
    cameras, mesh = rooms_scene(SPEC)
    return cameras, mesh, RayCaster(mesh)


def incidence(capture: Capture) -> NDArray[np.bool_]:
    """bool [P, V]."""
    seen = np.zeros((len(capture.points), len(capture.cameras)), bool)
    rows = np.repeat(np.arange(len(seen)), np.diff(capture.tracks.offsets))
    seen[rows, capture.tracks.views] = True
    return seen


def nearest(mesh: SceneMesh, origin: NDArray, directions: NDArray) -> NDArray:
    """Distance to the first triangle in units of each direction, by Möller and Trumbore on all of them."""
    a, b, c = np.moveaxis(mesh.corners, 1, 0)
    across = np.cross(directions[:, None], (c - a)[None])
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = 1.0 / ((b - a) * across).sum(-1)
        start = origin - a
        u = (start * across).sum(-1) * inverse
        other = np.cross(start, b - a)
        v = (directions[:, None] * other).sum(-1) * inverse
        t = ((c - a) * other).sum(-1) * inverse
        hit = (u >= -1e-9) & (v >= -1e-9) & (u + v <= 1 + 1e-9) & (t > 1e-9)
    return np.where(hit, t, np.inf).min(1)


def test_sizes_are_those_asked_for() -> None:
    capture = tiny()
    assert [pixels.shape for pixels in capture.images] == [(48, 64, 3)] * 16
    assert capture.points.shape == capture.colours.shape == (600, 3)
    assert capture.tracks.track_count == 600
    assert list(capture.test) == [0, 8]
    names = [camera.name for camera in capture.cameras]
    assert names == sorted(names)
    assert len(set(names)) == 16


def test_the_default_is_the_capture_of_the_design() -> None:
    spec = RoomsSpec()
    assert (spec.views, spec.width, spec.height, spec.points, spec.rooms) == (96, 120, 90, 8000, 3)
    cameras, _ = rooms_scene(spec)
    assert len(cameras) == 96


def test_generating_twice_gives_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tiny()
    monkeypatch.setenv("ODIN_CACHE", str(tmp_path))
    second = tiny()
    assert first.manifest == second.manifest
    np.testing.assert_array_equal(first.images, second.images)
    for field in ("points", "colours"):
        np.testing.assert_array_equal(getattr(first, field), getattr(second, field))
    np.testing.assert_array_equal(first.tracks.views, second.tracks.views)
    np.testing.assert_array_equal(first.tracks.offsets, second.tracks.offsets)


def test_a_cached_capture_is_not_generated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    first = tiny()

    def fail(*args: object) -> None:
        raise AssertionError("generated again")

    monkeypatch.setattr(module, "_generate", fail)
    np.testing.assert_array_equal(tiny(test_every=4).images, first.images)


def test_the_manifest_covers_sizes_seed_split_and_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(spec: RoomsSpec) -> str:
        return module._key(spec, *rooms_scene(spec))

    keys = {key(SPEC), *(key(replace(SPEC, **{name: 20})) for name in ("views", "width", "height", "points", "seed"))}
    monkeypatch.setattr(module, "GENERATOR_VERSION", module.GENERATOR_VERSION + 1)
    assert len(keys | {key(SPEC)}) == 7
    monkeypatch.undo()
    assert key(SPEC) in keys
    assert tiny().manifest != tiny(test_every=0).manifest


def test_observations_are_exactly_the_points_in_sight(
    scene: tuple[tuple[Camera, ...], SceneMesh, RayCaster],
) -> None:
    cameras, mesh, caster = scene
    rng = np.random.default_rng(3)
    faces = rng.integers(0, len(mesh.faces), 400)
    weights = rng.dirichlet([2, 2, 2], 400)
    positions = (weights[:, :, None] * mesh.corners[faces]).sum(1)
    hidden = shown = 0
    for camera in cameras[::5]:
        found = observed(mesh, caster, camera, faces, positions)
        local = positions @ camera.rotation.T + camera.translation
        rays = positions - camera.centre
        free = nearest(mesh, camera.centre, rays) > 1 - 1e-4
        facing = -(rays * mesh.normals[faces]).sum(1) > 0.15 * np.linalg.norm(rays, axis=1)
        limits = camera.width / 2 / camera.fx, camera.height / 2 / camera.fy
        inside = (local[:, 2] > 0.1) & np.all(np.abs(local[:, :2]) < limits * local[:, 2:], axis=1)
        np.testing.assert_array_equal(found, free & facing & inside)
        hidden += (inside & facing & ~free).sum()
        shown += found.sum()
    assert hidden > 20
    assert shown > 20


def test_every_observation_has_a_line_of_sight(scene: tuple[tuple[Camera, ...], SceneMesh, RayCaster]) -> None:
    _, mesh, _ = scene
    capture = tiny()
    seen = incidence(capture)
    assert seen.sum(1).min() >= 2
    for view, camera in enumerate(capture.cameras):
        rays = capture.points[seen[:, view]] - camera.centre
        length = np.linalg.norm(rays, axis=1)
        # Noise moves a point along a grazing ray (cosine above 0.15) by up to 4 sigma / 0.15.
        assert np.all(nearest(mesh, camera.centre, rays) * length > length - 4 * NOISE / 0.15)


def test_colours_of_points_are_those_of_the_pixels() -> None:
    capture = tiny()
    seen = incidence(capture)
    differences = []
    for view, camera in enumerate(capture.cameras):
        local = capture.points[seen[:, view]] @ camera.rotation.T + camera.translation
        x, y = (camera.fx * local[:, :2] / local[:, 2:] + (camera.cx, camera.cy)).astype(int).T
        pixels = capture.images[view][y.clip(0, 47), x.clip(0, 63)].astype(int)
        differences.append(np.abs(pixels - capture.colours[seen[:, view]]).mean(1))
    # Edges of the texture within a pixel differ; half of the points must not.
    assert np.median(np.concatenate(differences)) < 12


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


def test_cameras_stand_free_inside_their_room(scene: tuple[tuple[Camera, ...], SceneMesh, RayCaster]) -> None:
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
        np.testing.assert_allclose(camera.rotation @ camera.rotation.T, np.eye(3), atol=1e-12)
        assert np.linalg.det(camera.rotation) == pytest.approx(1.0)
        faces, distance = caster.first_hits(camera.centre, directions)
        assert faces.min() >= 0, "a ray leaves the rooms: the shell has a hole"
        assert distance.min() > 0.25


def test_pictures_have_texture_and_no_holes() -> None:
    capture = tiny()
    for pixels in capture.images:
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
