"""The *city* capture: an aerial survey of blocks on a grid, with any number of views.

The camera flies to and fro over the city and looks ahead and down. Ground per view is constant, so that more views
make a larger city, not a denser survey, and a view overlaps with its neighbours alone.
"""

from __future__ import annotations

import math

import numpy as np

from harness.scenes.procedural.capture import Blueprint, load_blueprint
from harness.scenes.procedural.city_layout import PITCH, build_city
from harness.scenes.procedural.pose import looking, pinhole
from harness.scenes.spec import CitySpec, Progress
from pipelines.camera import Camera
from pipelines.capture import Capture

# Raise when pixels, points or tracks change for the same cameras and meshes.
GENERATOR_VERSION = 1

_FOCAL = 0.9  # of the image width: 58 degrees across
_HEIGHT = 26.0  # above the ground; roofs end at 13
_PITCH = math.radians(-62.0)
_ALONG, _ACROSS = 6.0, 9.0  # between shots of a lane, between lanes
# Units: a point on the ground, 26 below, is found in 43 % of the views that see it (DETECTION·(18 / 26)²).
_REACH = 18.0


def load_city(spec: CitySpec, *, test_every: int, progress: Progress) -> Capture:
    """The capture of `spec`, from the cache or generated now.

    Raises InputError when no training view is left or the views overlap too little.
    """
    return load_blueprint(city_blueprint(spec), test_every=test_every, progress=progress)


def city_blueprint(spec: CitySpec) -> Blueprint:
    """Cameras and mesh of `spec`, nothing rendered yet."""
    side = city_side(spec.views)
    return Blueprint(
        kind="city",
        version=GENERATOR_VERSION,
        spec=spec,
        cameras=city_cameras(spec),
        mesh=build_city(max(1, math.ceil(side / PITCH))),
        reach=_REACH,
    )


def city_side(views: int) -> float:
    """Side of the square that so many views survey."""
    return math.sqrt(views * _ALONG * _ACROSS)


def city_cameras(spec: CitySpec) -> tuple[Camera, ...]:
    """Lanes from south to north, flown alternately east and west, in name order."""
    side = city_side(spec.views)
    lanes = np.array_split(np.arange(spec.views), max(1, round(side / _ACROSS)))
    return tuple(
        _camera(int(shot), (place + 0.5) / len(lane) * side, (row + 0.5) / len(lanes) * side, row % 2 == 0, spec)
        for row, lane in enumerate(lanes)
        for place, shot in enumerate(lane)
    )


def _camera(shot: int, along: float, across: float, eastward: bool, spec: CitySpec) -> Camera:
    side = city_side(spec.views)
    x = along if eastward else side - along
    yaw = (0.0 if eastward else math.pi) + 0.12 * math.sin(1.7 * shot)
    # Stand back by as much as the view looks ahead.
    back = _HEIGHT / math.tan(-_PITCH) * 0.7
    centre = np.array(
        [
            x - back * math.cos(yaw),
            across - back * math.sin(yaw) + 0.6 * math.sin(2.9 * shot),
            _HEIGHT + 0.8 * math.sin(1.1 * shot),
        ]
    )
    rotation = looking(yaw, _PITCH + 0.05 * math.sin(2.3 * shot))
    return pinhole(f"city_{shot:06d}.png", centre, rotation, (spec.width, spec.height), _FOCAL)
