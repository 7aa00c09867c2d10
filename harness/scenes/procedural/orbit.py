"""The *orbit* capture: objects on a table, seen from rings of a dome; true depth and normals are known (`truth.py`).

Views on opposite sides share only the table and the tops of objects: co-visibility falls off with the angle, as in
object-centric captures.
"""

from __future__ import annotations

import math

import numpy as np

from harness.scenes.procedural.capture import Blueprint, load_blueprint
from harness.scenes.procedural.orbit_layout import TOP, build_orbit
from harness.scenes.procedural.pose import looking, pinhole
from harness.scenes.spec import OrbitSpec, Progress
from pipelines.camera import Camera
from pipelines.capture import Capture

# Raise when pixels, points or tracks change for the same cameras and meshes.
GENERATOR_VERSION = 1

_FOCAL = 0.9  # of the image width: 58 degrees across
_RADIUS = 1.9  # metres from the middle of the objects
_ELEVATIONS = (24.0, 42.0, 62.0)  # degrees, one ring each
# Metres. From everywhere on the dome the table top is in sight, and the 3 m of *rooms* would put a point into 24 of 96
# views; structure from motion matches it in a few of them.
_REACH = 1.0


def load_orbit(spec: OrbitSpec, *, test_every: int, progress: Progress) -> Capture:
    """The capture of `spec`, from the cache or generated now.

    Raises InputError when no training view is left or the views overlap too little.
    """
    return load_blueprint(orbit_blueprint(spec), test_every=test_every, progress=progress)


def orbit_blueprint(spec: OrbitSpec) -> Blueprint:
    """Cameras and mesh of `spec`, nothing rendered yet."""
    cameras = orbit_cameras(spec)
    return Blueprint(
        kind="orbit",
        version=GENERATOR_VERSION,
        spec=spec,
        cameras=cameras,
        mesh=build_orbit(),
        reach=_REACH,
    )


def orbit_cameras(spec: OrbitSpec) -> tuple[Camera, ...]:
    """Rings from the lowest up, in name order; each ring is one walk round the table."""
    rings = np.array_split(np.arange(spec.views), len(_ELEVATIONS))
    return tuple(
        _camera(int(shot), place / len(ring), level, spec)
        for level, ring in enumerate(rings)
        for place, shot in enumerate(ring)
    )


def _camera(shot: int, turn: float, level: int, spec: OrbitSpec) -> Camera:
    # Hand-held: height, distance and aim waver a little.
    elevation = math.radians(_ELEVATIONS[level] + 2.5 * math.sin(2.1 * shot))
    around = 2 * math.pi * (turn + 0.37 * level)
    radius = _RADIUS * (1 + 0.04 * math.sin(1.3 * shot))
    away = np.array(
        [math.cos(elevation) * math.cos(around), math.cos(elevation) * math.sin(around), math.sin(elevation)]
    )
    target = np.array([0.06 * math.sin(1.7 * shot), 0.06 * math.cos(2.3 * shot), TOP + 0.05])
    centre = target + radius * away
    x, y, z = target - centre
    rotation = looking(math.atan2(y, x), math.atan2(z, math.hypot(x, y)))
    return pinhole(f"orbit{level}_{shot:04d}.png", centre, rotation, (spec.width, spec.height), _FOCAL)
