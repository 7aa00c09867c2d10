"""Cameras of the *rooms* capture: a person turning round in each room, taking one photo after another."""

from __future__ import annotations

import math

import numpy as np

from harness.scenes.procedural.pose import looking, pinhole
from harness.scenes.procedural.rooms_plan import Room
from pipelines.camera import Camera

_FOCAL = 0.62  # of the image width: 78 degrees across
_LAP = 16  # photos per turn, 22.5 degrees apart
_RADII = (0.35, 0.85)  # metres from the middle of the room, looking outwards and across
_HEIGHTS = (1.45, 1.75, 1.3)
_PITCH = (-0.12, -0.34, 0.1)  # radians, per lap; negative looks down


def room_cameras(room: Room, count: int, width: int, height: int) -> list[Camera]:
    """`count` views of one room, named so that they sort in the order they were taken.

    Laps alternate between looking outwards and looking across the room, which gives parallax.
    """
    laps = max(1, round(count / _LAP))
    return [_camera(room, shot, count, laps, width, height) for shot in range(count)]


def _camera(room: Room, shot: int, count: int, laps: int, width: int, height: int) -> Camera:
    turn = shot * laps / count
    lap = int(turn)
    yaw = 2 * math.pi * turn + 0.3 * lap
    # Looking across, the camera stands on the far side of the middle.
    radius = _RADII[0] if lap % 2 == 0 else -_RADII[1]
    x, y = room.centre
    centre = np.array(
        [
            x + radius * math.cos(yaw),
            y + radius * math.sin(yaw),
            _HEIGHTS[lap % len(_HEIGHTS)] + 0.08 * math.sin(2.7 * shot),
        ]
    )
    rotation = looking(yaw, _PITCH[lap % len(_PITCH)] + 0.06 * math.sin(1.9 * shot))
    return pinhole(f"room{room.index:02d}_{shot:04d}.png", centre, rotation, (width, height), _FOCAL)
