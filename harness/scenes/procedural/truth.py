"""True depth and normals of a procedural capture, for evaluation only: no recipe sees them.

Legend: H, W image size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.scenes.procedural.mesh import SceneMesh
from harness.scenes.procedural.raycast import RayCaster
from pipelines.camera import Camera


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What the ray through each pixel's centre meets first.

    depth:  float64 [H, W], along the camera's axis, metres; inf where nothing is met
    normal: float64 [H, W, 3], unit, camera space, towards the camera; 0 where nothing is met
    """

    depth: NDArray[np.float64]
    normal: NDArray[np.float64]

    @property
    def hit(self) -> NDArray[np.bool_]:
        """Pixels that see a surface, bool [H, W]."""
        return np.isfinite(self.depth)


def true_geometry(mesh: SceneMesh, caster: RayCaster, camera: Camera) -> Truth:
    """Cast one ray per pixel."""
    x, y = np.meshgrid(
        (np.arange(camera.width) + 0.5 - camera.cx) / camera.fx,
        (np.arange(camera.height) + 0.5 - camera.cy) / camera.fy,
    )
    local = np.stack([x, y, np.ones_like(x)], axis=-1).reshape(-1, 3)
    faces, depth = caster.first_hits(camera.centre, local @ camera.rotation)
    hit = faces >= 0
    normal = np.zeros_like(local)
    normal[hit] = mesh.normals[faces[hit]] @ camera.rotation.T
    away = (normal * local).sum(1) > 0
    normal[away] *= -1.0
    shape = camera.height, camera.width
    return Truth(depth=depth.reshape(shape), normal=normal.reshape(*shape, 3))
