"""Orientation of procedural cameras, which are always level (x right, y down, z forward; world z up)."""

from __future__ import annotations

import math

import numpy as np

from harness.scenes.procedural.mesh import Vectors
from pipelines.camera import Camera


def looking(yaw: float, pitch: float) -> Vectors:
    """World → camera rotation [3, 3]; yaw from the x axis and pitch from the horizon, radians, up is positive."""
    forward = np.array([math.cos(pitch) * math.cos(yaw), math.cos(pitch) * math.sin(yaw), math.sin(pitch)])
    right = np.array([math.sin(yaw), -math.cos(yaw), 0.0])
    return np.array([right, np.cross(forward, right), forward])


def pinhole(name: str, centre: Vectors, rotation: Vectors, size: tuple[int, int], focal: float) -> Camera:
    """A camera at `centre` [3] with square pixels and a centred principal point.

    size:  width and height, pixels
    focal: as a share of the image width
    """
    width, height = size
    return Camera(
        name=name,
        width=width,
        height=height,
        fx=focal * width,
        fy=focal * width,
        cx=width / 2,
        cy=height / 2,
        rotation=rotation,
        translation=-rotation @ centre,
    )
