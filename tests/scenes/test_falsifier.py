"""The falsifier capture: tiny from afar, dominant from near, and coupled weakly in the planner's eyes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.scenes import FalsifierSpec, SceneSpec, load_scene
from harness.scenes.procedural.falsifier import falsifier_blueprint
from harness.scenes.procedural.falsifier_layout import BACKDROP, HEIGHT, MOSAIC, POSTS, WIDTH
from harness.scenes.procedural.mesh import SceneMesh
from harness.scenes.procedural.raycast import RayCaster
from harness.scenes.procedural.texture import Material
from harness.scenes.procedural.tracks import REACH, lens_reach, sample_points
from odin.planner import build_plan
from odin.tracks import Tracks
from pipelines.camera import Camera

BLUEPRINT = falsifier_blueprint(FalsifierSpec())
FAR = [camera for camera in BLUEPRINT.cameras if camera.name.startswith("far")]
NEAR = [camera for camera in BLUEPRINT.cameras if camera.name.startswith("near")]


def corners(mesh: SceneMesh, *materials: Material) -> np.ndarray:
    """Corners of all faces of these materials, [n, 3]."""
    owner = [surface.material in materials for surface in mesh.surfaces]
    return mesh.corners[np.array(owner)[mesh.surface_of]].reshape(-1, 3)


def pixels(camera: Camera, points: np.ndarray) -> np.ndarray:
    """[n, 2]; the points lie in front of the camera."""
    local = points @ camera.rotation.T + camera.translation
    assert local[:, 2].min() > 0
    return camera.fx * local[:, :2] / local[:, 2:] + (camera.cx, camera.cy)


def test_the_default_leaves_whole_steps_in_every_region() -> None:
    spec = FalsifierSpec()
    assert (spec.views, spec.width, spec.height, spec.points) == (74, 120, 90, 8000)
    train = [camera.name for index, camera in enumerate(BLUEPRINT.cameras) if index % 8]
    assert sum(name.startswith("far") for name in train) == sum(name.startswith("near") for name in train) == 32


def test_from_afar_the_whole_mosaic_is_a_few_hundred_pixels_and_the_backdrop_out_of_sight() -> None:
    mosaic, backdrop = corners(BLUEPRINT.mesh, MOSAIC), corners(BLUEPRINT.mesh, BACKDROP)
    for camera in FAR:
        here = pixels(camera, mosaic)
        assert here.min() >= 0 and here[:, 0].max() < camera.width and here[:, 1].max() < camera.height
        assert np.prod(np.ptp(here, axis=0)) < 500
        # Above the image by more than what an update could move a row in.
        assert pixels(camera, backdrop)[:, 1].max() < -2
        posts = pixels(camera, corners(BLUEPRINT.mesh, *POSTS))
        assert np.ptp(posts[:, 0]) > camera.width


def test_near_views_are_at_least_half_mosaic_and_never_see_the_posts() -> None:
    axis = (np.arange(60) + 0.5) * 2, (np.arange(45) + 0.5) * 2
    for camera in NEAR:
        x, y = (grid.ravel() for grid in np.meshgrid(*axis))
        rays = np.column_stack([(x - camera.cx) / camera.fx, (y - camera.cy) / camera.fy, np.ones_like(x)])
        rays = rays @ camera.rotation
        towards = rays[:, 1] > 0
        hit = camera.centre + np.where(towards, -camera.centre[1] / np.where(towards, rays[:, 1], 1), 0)[:, None] * rays
        inside = towards & (np.abs(hit[:, 0]) < WIDTH / 2) & (hit[:, 2] > 0) & (hit[:, 2] < HEIGHT)
        assert inside.mean() > 0.45
        local = corners(BLUEPRINT.mesh, *POSTS) @ camera.rotation.T + camera.translation
        assert local[:, 2].max() < 0


def test_the_reach_of_a_lens_grows_with_its_length() -> None:
    reach = lens_reach(BLUEPRINT.cameras)
    np.testing.assert_allclose(reach[len(FAR) :], REACH)
    np.testing.assert_allclose(reach[: len(FAR)], REACH * 9.0 / 0.62)


@pytest.mark.parametrize("regions", [2, 4])
def test_the_planner_puts_a_near_step_after_every_far_one(regions: int) -> None:
    caster = RayCaster(BLUEPRINT.mesh)
    cameras = BLUEPRINT.cameras
    seen = sample_points(BLUEPRINT.mesh, caster, cameras, 3000, 0, reach=BLUEPRINT.reach).seen
    tracks = Tracks(
        offsets=np.concatenate([[0], np.cumsum(seen.sum(1))]).astype(np.int64),
        views=np.nonzero(seen)[1].astype(np.int32),
        view_count=len(cameras),
    )
    train = np.array([index for index in range(len(cameras)) if index % 8], np.int32)
    plan = build_plan(
        tracks=tracks.restrict(train),
        centres=np.stack([cameras[view].centre for view in train]),
        order="plan",
        ranks=2,
        views_per_unit=2,
        steps=96,
        regions=regions,
        seed=0,
    )
    far = np.array([cameras[view].name.startswith("far") for view in train])
    share = far[plan.units.reshape(96, -1)].mean(axis=1)
    assert set(share) == {0.0, 1.0}, "a step mixes far and near views"
    assert np.all(np.diff(share) != 0)
    near_region = plan.region[share == 0]
    if regions == 4:
        # A near region is not visited twice in a row, so the last gradients published there are a far step's.
        assert np.mean(near_region[1:] == near_region[:-1]) < 0.1


def test_pictures_have_texture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODIN_CACHE", str(tmp_path))
    capture = load_scene(SceneSpec(path="falsifier?views=8&width=48&height=36&points=200"))
    for image in capture.images:
        assert image.std() > 12
