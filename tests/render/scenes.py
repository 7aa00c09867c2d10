"""Small random scenes. Legend: M rows, H, W image size; geometry float32 [M, 11], sh float32 [M, 48]."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray

from pipelines.camera import Camera

BACKGROUND = torch.tensor([0.2, 0.4, 0.1])


def make_camera(
    width: int = 64, height: int = 48, fov: float = 60.0, seed: int = 0, near_origin: bool = True
) -> Camera:
    """A camera near the origin with a random orientation, looking roughly along +z of its own frame."""
    rng = np.random.default_rng(seed)
    focal = 0.5 * width / math.tan(math.radians(fov) / 2.0)
    return Camera(
        name=f"view-{seed}",
        width=width,
        height=height,
        fx=focal,
        fy=focal * 1.05,
        cx=width / 2.0 + 0.7,
        cy=height / 2.0 - 0.4,
        rotation=rotation(rng.normal(size=4)),
        translation=rng.normal(size=3) * (0.3 if near_origin else 3.0),
    )


def rotation(quaternion: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rotation matrix [3, 3] of a quaternion wxyz."""
    w, x, y, z = quaternion / np.linalg.norm(quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def make_rows(
    count: int, camera: Camera, seed: int = 0, pixels: float = 3.0, aniso: float = 0.5, behind: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows spread over the view and a little beyond, about `pixels` wide; a share `behind` lies behind the camera."""
    rng = np.random.default_rng(seed)
    depth = 1.5 + 6.0 * rng.random(count)
    seen = rng.uniform(-1.05, 1.05, size=(count, 2)) * [camera.tan_x, camera.tan_y]
    local = np.column_stack([seen * depth[:, None], np.where(rng.random(count) < behind, -depth, depth)])
    xyz = (local - camera.translation) @ camera.rotation
    spread = 0.5 * rng.normal(size=(count, 1)) + aniso * rng.normal(size=(count, 3))
    scales = np.log(pixels * depth[:, None] / camera.fx) + spread
    quaternions, logits = rng.normal(size=(count, 4)), 1.5 * rng.normal(size=(count, 1)) - 0.5
    sh = 0.15 * rng.normal(size=(count, 48))
    sh[:, :3] *= 4.0
    geometry = np.concatenate([xyz, scales, quaternions, logits], axis=1)
    return torch.tensor(geometry, dtype=torch.float32), torch.tensor(sh, dtype=torch.float32)
