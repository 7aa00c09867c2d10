"""Cameras of the *falsifier* capture: a long lens on a roof far away, and a walk along the mosaic."""

from __future__ import annotations

import math

import numpy as np

from harness.scenes.procedural.falsifier_layout import FAR_Y, FAR_Z, HEIGHT, SPREAD, WIDTH
from harness.scenes.procedural.pose import looking, pinhole
from pipelines.camera import Camera

_FAR_FOCAL = 9.0  # of the image width: 6.4 degrees across; the mosaic is 43 of 120 pixels wide
_NEAR_FOCAL = 0.62  # 78 degrees across, as in *rooms*
_NEAR = 0.45  # metres from the mosaic: a near view is 0.73 m wide there
_MARGIN = 0.3  # metres that near cameras keep from its ends


def far_cameras(count: int, width: int, height: int) -> list[Camera]:
    """`count` views past the posts, from left to right, aimed at the middle of the mosaic."""
    cameras = []
    for shot in range(count):
        centre = np.array(
            [
                SPREAD * _place(shot, count),
                FAR_Y - 0.1 * math.sin(1.7 * shot),
                FAR_Z + 0.0185 * math.sin(2.4 * shot),
            ]
        )
        target = np.array([0.3 * math.sin(2.4 * shot), 0.0, HEIGHT / 2 + 0.1 * math.cos(1.3 * shot)])
        x, y, z = target - centre
        rotation = looking(math.atan2(y, x), math.atan2(z, math.hypot(x, y)))
        cameras.append(pinhole(f"far_{shot:04d}.png", centre, rotation, (width, height), _FAR_FOCAL))
    return cameras


def near_cameras(count: int, width: int, height: int) -> list[Camera]:
    """`count` views from left to right along the mosaic, which fills half to three quarters of each."""
    cameras = []
    for shot in range(count):
        centre = np.array(
            [
                (WIDTH / 2 - _MARGIN) * _place(shot, count),
                -_NEAR * (1 + 0.15 * math.sin(2.3 * shot)),
                0.4 + 0.06 * math.sin(1.1 * shot),
            ]
        )
        yaw = math.pi / 2 - math.radians(12.0) * math.sin(1.9 * shot)
        rotation = looking(yaw, math.radians(5.0))
        cameras.append(pinhole(f"near_{shot:04d}.png", centre, rotation, (width, height), _NEAR_FOCAL))
    return cameras


def _place(shot: int, count: int) -> float:
    """-1…1 from left to right."""
    return (2 * shot + 1) / count - 1
