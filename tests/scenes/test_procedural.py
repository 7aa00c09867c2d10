"""What holds for every procedural capture: deterministic, cached, truly occluded, with tracks of points in sight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.scenes import FalsifierSpec, RoomsSpec, SceneSpec, load_scene
from harness.scenes.procedural import capture as generator
from harness.scenes.procedural import falsifier, rooms
from harness.scenes.procedural.capture import Blueprint
from harness.scenes.procedural.mesh import SceneMesh
from harness.scenes.procedural.raycast import RayCaster
from harness.scenes.procedural.tracks import NOISE, observed
from pipelines.capture import Capture


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A small capture of one kind."""

    module: ModuleType
    blueprint: Callable[..., Blueprint]
    spec: RoomsSpec | FalsifierSpec
    query: str

    def load(self, **changes: object) -> Capture:
        return load_scene(SceneSpec(path=f"{self.blueprint(self.spec).kind}?{self.query}", **changes))


KINDS = {
    "rooms": Kind(
        module=rooms,
        blueprint=rooms.rooms_blueprint,
        spec=RoomsSpec(views=16, width=64, height=48, points=600, rooms=2),
        query="views=16&width=64&height=48&points=600&rooms=2",
    ),
    "falsifier": Kind(
        module=falsifier,
        blueprint=falsifier.falsifier_blueprint,
        spec=FalsifierSpec(views=16, width=64, height=48, points=600),
        query="views=16&width=64&height=48&points=600",
    ),
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def use_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODIN_CACHE", str(cache))


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


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


def test_sizes_are_those_asked_for(kind: Kind) -> None:
    capture = kind.load()
    assert [pixels.shape for pixels in capture.images] == [(48, 64, 3)] * 16
    assert capture.points.shape == capture.colours.shape == (600, 3)
    assert capture.tracks.track_count == 600
    assert list(capture.test) == [0, 8]
    names = [camera.name for camera in capture.cameras]
    assert names == sorted(names)
    assert len(set(names)) == 16


def test_generating_twice_gives_the_same_bits(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kind.load()
    monkeypatch.setenv("ODIN_CACHE", str(tmp_path))
    second = kind.load()
    assert first.manifest == second.manifest
    np.testing.assert_array_equal(first.images, second.images)
    for field in ("points", "colours"):
        np.testing.assert_array_equal(getattr(first, field), getattr(second, field))
    np.testing.assert_array_equal(first.tracks.views, second.tracks.views)
    np.testing.assert_array_equal(first.tracks.offsets, second.tracks.offsets)


def test_a_cached_capture_is_not_generated_again(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kind.load()

    def fail(*args: object) -> None:
        raise AssertionError("generated again")

    monkeypatch.setattr(generator, "generate", fail)
    np.testing.assert_array_equal(kind.load(test_every=4).images, first.images)


def test_the_manifest_covers_sizes_seed_split_and_generator(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    def key(spec: RoomsSpec | FalsifierSpec) -> str:
        return kind.blueprint(spec).key()

    changed = ("views", "width", "height", "points", "seed")
    keys = {key(kind.spec), *(key(replace(kind.spec, **{name: 20})) for name in changed)}
    monkeypatch.setattr(kind.module, "GENERATOR_VERSION", kind.module.GENERATOR_VERSION + 1)
    assert len(keys | {key(kind.spec)}) == 7
    monkeypatch.undo()
    assert key(kind.spec) in keys
    assert kind.load().manifest != kind.load(test_every=0).manifest


def test_rooms_are_those_of_every_record_so_far() -> None:
    # Cells are identified by the manifest: this changes only with GENERATOR_VERSION, and on purpose.
    assert rooms.rooms_blueprint(RoomsSpec()).key()[:16] == "3ed67b454b29ec20"


def test_observations_are_exactly_the_points_in_sight(kind: Kind) -> None:
    blueprint = kind.blueprint(kind.spec)
    mesh, caster = blueprint.mesh, RayCaster(blueprint.mesh)
    rng = np.random.default_rng(3)
    faces = rng.integers(0, len(mesh.faces), 400)
    weights = rng.dirichlet([2, 2, 2], 400)
    positions = (weights[:, :, None] * mesh.corners[faces]).sum(1)
    hidden = shown = 0
    for camera in blueprint.cameras[::5]:
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
    assert hidden > 5
    assert shown > 20


def test_every_observation_has_a_line_of_sight(kind: Kind) -> None:
    mesh, capture = kind.blueprint(kind.spec).mesh, kind.load()
    seen = incidence(capture)
    assert seen.sum(1).min() >= 2
    for view, camera in enumerate(capture.cameras):
        rays = capture.points[seen[:, view]] - camera.centre
        length = np.linalg.norm(rays, axis=1)
        # Noise moves a point along a grazing ray (cosine above 0.15) by up to 4 sigma / 0.15.
        assert np.all(nearest(mesh, camera.centre, rays) * length > length - 4 * NOISE / 0.15)


def test_colours_of_points_are_those_of_the_pixels(kind: Kind) -> None:
    capture = kind.load()
    seen = incidence(capture)
    differences = []
    for view, camera in enumerate(capture.cameras):
        local = capture.points[seen[:, view]] @ camera.rotation.T + camera.translation
        x, y = (camera.fx * local[:, :2] / local[:, 2:] + (camera.cx, camera.cy)).astype(int).T
        pixels = capture.images[view][y.clip(0, 47), x.clip(0, 63)].astype(int)
        differences.append(np.abs(pixels - capture.colours[seen[:, view]]).mean(1))
    # Edges of the texture within a pixel differ; half of the points must not.
    assert np.median(np.concatenate(differences)) < 12


def test_rotations_are_rotations(kind: Kind) -> None:
    for camera in kind.blueprint(kind.spec).cameras:
        np.testing.assert_allclose(camera.rotation @ camera.rotation.T, np.eye(3), atol=1e-12)
        assert np.linalg.det(camera.rotation) == pytest.approx(1.0)
