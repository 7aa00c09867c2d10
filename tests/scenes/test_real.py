"""The real captures, where they are present: $ODIN_DATA, or ../shared/data beside the repository."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from harness.scenes import SceneSpec, load_scene

from .test_colmap_scene import assert_matches_pycolmap

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("ODIN_DATA", ROOT.parent / "shared" / "data"))
# name: views, test views, points, observations, images_4 size (data/README.md)
SCENES = {
    "bonsai": (126, 16, 7950, 44097, (120, 80)),
    "fox": (50, 7, 10345, 68537, (68, 120)),
    "south_building": (128, 16, 14139, 83653, (120, 90)),
    "caliterra": (75, 10, 21861, 174624, (120, 90)),
}


def scene(name: str) -> str:
    folder = DATA / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there; set ODIN_DATA to the folder of the real captures")
    return str(folder)


@pytest.mark.real
@pytest.mark.parametrize("name", SCENES)
def test_counts_are_those_of_the_data_sheet(name: str) -> None:
    views, test, points, observations, size = SCENES[name]
    capture = load_scene(SceneSpec(path=scene(name), images="images_4"))
    assert (len(capture.cameras), len(capture.test)) == (views, test)
    assert (len(capture.points), capture.tracks.track_count, len(capture.tracks.views)) == (
        points,
        points,
        observations,
    )
    assert {(camera.width, camera.height) for camera in capture.cameras} == {size}
    assert {pixels.shape for pixels in capture.images} == {(size[1], size[0], 3)}


@pytest.mark.real
def test_bonsai_is_what_pycolmap_reads() -> None:
    folder = scene("bonsai")
    assert_matches_pycolmap(load_scene(SceneSpec(path=folder)), Path(folder) / "sparse" / "0")


@pytest.mark.real
def test_points_lie_in_front_of_the_views_that_observe_them() -> None:
    capture = load_scene(SceneSpec(path=scene("bonsai"), images="images_4"))
    row = np.repeat(np.arange(len(capture.points)), np.diff(capture.tracks.offsets))
    for view, camera in enumerate(capture.cameras):
        local = capture.points[row[capture.tracks.views == view]] @ camera.rotation.T + camera.translation
        assert np.all(local[:, 2] > 0)
        x = camera.fx * local[:, 0] / local[:, 2] + camera.cx
        # Reprojection errors are below 4 px of the full image, 1 px here.
        assert np.all((x > -1) & (x < camera.width + 1))
