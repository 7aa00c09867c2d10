"""Between the forks' cameras and ours.

Forks keep the field of view and put the principal point into the middle of the image; a camera of ours that is to
agree with one of theirs does so too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from pipelines.adapters.modules import Fork
from pipelines.camera import Camera
from pipelines.render.conventions import ALPHA_MIN, JACOBIAN_LIMIT

_OUR_SIGMAS = math.sqrt(-2.0 * math.log(ALPHA_MIN))  # where an opaque row's alpha falls below 1/255
_FORK_SIGMAS = 3.0
MARGIN = 8  # pixels around an image within which a row may still count as seen there
_NEAR, _FAR = 0.01, 100.0  # of the forks' projection matrices


def our_camera(view: Any, size: tuple[int, int] | None = None) -> Camera:
    """A fork's camera in our form, rendered at (height, width) or as its photo is."""
    height, width = size or (int(view.image_height), int(view.image_width))
    pose = view.world_view_transform.detach().cpu().numpy().astype(np.float64).T
    return Camera(
        name=str(view.image_name),
        width=width,
        height=height,
        fx=width / (2.0 * math.tan(view.FoVx / 2.0)),
        fy=height / (2.0 * math.tan(view.FoVy / 2.0)),
        cx=width / 2.0,
        cy=height / 2.0,
        rotation=np.ascontiguousarray(pose[:3, :3]),
        translation=np.ascontiguousarray(pose[:3, 3]),
    )


def camera_for(fork: Fork, camera: Camera, device: torch.device) -> Any:
    """A camera of the fork for one of ours that is not among its training views."""
    graphics = fork.module("utils.graphics_utils")
    across, down = 2.0 * math.atan(camera.tan_x), 2.0 * math.atan(camera.tan_y)
    world = torch.tensor(graphics.getWorld2View2(camera.rotation.T, camera.translation)).T.contiguous().to(device)
    lens = graphics.getProjectionMatrix(znear=_NEAR, zfar=_FAR, fovX=across, fovY=down).T.contiguous().to(device)
    make = fork.module("scene.cameras").MiniCam
    return make(camera.width, camera.height, down, across, _NEAR, _FAR, world, world @ lens)


def watched(camera: Camera) -> Camera:
    """The camera whose scope is taken: wider, because the forks' kernels round radii up and draw half a pixel lower."""
    return replace(
        camera,
        width=camera.width + 2 * MARGIN,
        height=camera.height + 2 * MARGIN,
        cx=camera.cx + MARGIN,
        cy=camera.cy + MARGIN,
    )


def reach(cameras: Sequence[Camera]) -> float:
    """What has to be added to log-scales so that our boxes hold the forks' for every camera.

    Ours are √(2 ln 255) σ of each axis, theirs 3σ of the longer axis in both. With slopes x, y of a row, the variance
    of the longer axis is at most 1 + x² + y² times that of the shorter one at equal focal lengths.
    """
    most = 0.0
    for camera in cameras:
        x, y = JACOBIAN_LIMIT * camera.tan_x, JACOBIAN_LIMIT * camera.tan_y
        lens = max(camera.fx, camera.fy) / min(camera.fx, camera.fy)
        most = max(most, lens * math.sqrt(1.0 + x * x + y * y))
    return max(math.log(most * _FORK_SIGMAS / _OUR_SIGMAS), 0.0)
