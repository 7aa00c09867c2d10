"""The *rooms* capture: three furnished rooms joined by doors, inside-out cameras, true occlusion.

Views in one room mostly see that room, and through the doors a little of the next: co-visibility has the
block structure of real indoor scans.
"""

from __future__ import annotations

import numpy as np

from harness.scenes.procedural.capture import Blueprint, load_blueprint
from harness.scenes.procedural.mesh import SceneMesh
from harness.scenes.procedural.rooms_cameras import room_cameras
from harness.scenes.procedural.rooms_layout import build_rooms
from harness.scenes.procedural.rooms_plan import floor_plan
from harness.scenes.spec import Progress, RoomsSpec
from pipelines.camera import Camera
from pipelines.capture import Capture

# Raise when pixels, points or tracks change for the same cameras and meshes.
GENERATOR_VERSION = 1


def load_rooms(spec: RoomsSpec, *, test_every: int, progress: Progress) -> Capture:
    """The capture of `spec`, from the cache or generated now.

    Raises InputError when no training view is left or the views overlap too little.
    """
    return load_blueprint(rooms_blueprint(spec), test_every=test_every, progress=progress)


def rooms_blueprint(spec: RoomsSpec) -> Blueprint:
    """Cameras and mesh of `spec`, nothing rendered yet."""
    cameras, mesh = rooms_scene(spec)
    return Blueprint(kind="rooms", version=GENERATOR_VERSION, spec=spec, cameras=cameras, mesh=mesh)


def rooms_scene(spec: RoomsSpec) -> tuple[tuple[Camera, ...], SceneMesh]:
    """Cameras in name order, spread evenly over the rooms, and the mesh they look at."""
    rooms = floor_plan(spec.rooms)
    shares = [len(part) for part in np.array_split(np.arange(spec.views), spec.rooms)]
    cameras = [
        camera
        for room, share in zip(rooms, shares, strict=True)
        for camera in room_cameras(room, share, spec.width, spec.height)
    ]
    return tuple(cameras), build_rooms(rooms)
