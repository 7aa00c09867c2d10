"""Pictures of a SceneMesh: supersampled ray casting with lambert shading."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.scenes.procedural.mesh import SceneMesh, Vectors
from harness.scenes.procedural.raycast import RayCaster
from pipelines.camera import Camera

SUPERSAMPLE = 3  # rays per pixel and axis


def render(mesh: SceneMesh, caster: RayCaster, camera: Camera) -> NDArray[np.uint8]:
    """One view, uint8 [height, width, 3]; black where a ray leaves the scene."""
    faces, depth = caster.first_hits(camera.centre, directions := _directions(camera))
    hit = faces >= 0
    colours = np.zeros_like(directions)
    positions = camera.centre + depth[hit, None] * directions[hit]
    colours[hit] = mesh.colours(faces[hit], positions)
    pixels = colours.reshape(camera.height, SUPERSAMPLE, camera.width, SUPERSAMPLE, 3).mean((1, 3))
    return np.clip(np.round(255.0 * pixels), 0, 255).astype(np.uint8)


def _directions(camera: Camera) -> Vectors:
    """World directions [height·s · width·s, 3] with depth 1 along the camera's axis, row by row."""
    x = (np.arange(camera.width * SUPERSAMPLE) + 0.5) / SUPERSAMPLE
    y = (np.arange(camera.height * SUPERSAMPLE) + 0.5) / SUPERSAMPLE
    grid_x, grid_y = np.meshgrid((x - camera.cx) / camera.fx, (y - camera.cy) / camera.fy)
    local = np.stack([grid_x, grid_y, np.ones_like(grid_x)], axis=-1).reshape(-1, 3)
    return local @ camera.rotation
