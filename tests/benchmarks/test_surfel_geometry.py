"""The measures of the geometry benchmark on maps whose errors are known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.surfel_geometry import angles, errors, psnr, shown_depth, shown_normals
from harness.scenes.procedural.truth import Truth
from pipelines.camera import Camera
from pipelines.render.surfels.protocol import SurfelBlended

SIZE = 12, 16


def camera() -> Camera:
    height, width = SIZE
    pose = {"rotation": np.eye(3), "translation": np.zeros(3)}
    return Camera(name="a.png", width=width, height=height, fx=16.0, fy=16.0, cx=8.0, cy=6.0, **pose)


def wall(depth: float, tilt: float) -> SurfelBlended:
    """A wall across the view at `depth`, whose rendered normals are off by `tilt` degrees."""
    alpha = torch.full(SIZE, 0.8)
    turned = torch.tensor([np.sin(np.radians(tilt)), 0.0, -np.cos(np.radians(tilt))], dtype=torch.float32)
    return SurfelBlended(
        image=torch.zeros(*SIZE, 3),
        alpha=alpha,
        depth=alpha * depth,
        median=torch.full(SIZE, depth),
        distortion=torch.zeros(SIZE),
        normal=0.8 * turned.expand(*SIZE, 3),
        fragments=0,
        data=None,
    )


def truth(depth: float) -> Truth:
    normal = np.zeros((*SIZE, 3))
    normal[..., 2] = -1.0
    deep = np.full(SIZE, depth)
    deep[0, :4], normal[0, :4] = np.inf, 0.0
    return Truth(depth=deep, normal=normal)


def test_errors_of_a_wall() -> None:
    found = errors(wall(2.2, 10.0), truth(2.0), camera(), ratio=1.0)
    assert np.allclose(found["normal"], 10.0, atol=1e-3) and len(found["normal"]) == 12 * 16 - 4
    assert np.allclose(found["depth_normal"], 0.0, atol=1e-2)
    assert np.allclose(found["expected"], 0.1, atol=1e-6) and np.allclose(found["median"], 0.1, atol=1e-6)
    assert found["covered"] == [1.0]


def test_angles_of_vectors() -> None:
    a = np.array([[1.0, 0, 0], [0, 2, 0], [0, 0, 0]])
    b = np.array([[1.0, 0, 0], [0, -1, 0], [0, 0, 1]])
    assert angles(a, b) == pytest.approx([0.0, 180.0, 90.0])


def test_pictures_show_near_bright_and_nothing_black() -> None:
    grey = shown_depth(np.array([[1.0, 2.0, 0.0, np.inf]]), 1.0, 2.0)
    assert grey[0, 0, 0] > grey[0, 1, 0] > 0 and not grey[0, 2:].any()
    assert shown_normals(np.array([[[0.0, 0.0, -2.0]]]))[0, 0].tolist() == [127, 127, 255]


def test_psnr_of_a_known_difference() -> None:
    assert psnr(np.full((2, 2, 3), 0.1, np.float32), np.zeros((2, 2, 3), np.uint8)) == pytest.approx(20.0, abs=1e-4)
