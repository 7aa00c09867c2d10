"""Pinhole cameras, in COLMAP's convention (x right, y down, z forward; pixel centres at .5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Camera:
    """One view's pinhole camera at the resolution of its image.

    name:        file name of the image below the scene's image folder
    width, height: pixels
    fx, fy, cx, cy: pixels
    rotation:    float64 [3, 3], world → camera
    translation: float64 [3], world units; x_camera = rotation @ x_world + translation
    """

    name: str
    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float
    rotation: NDArray[np.float64]
    translation: NDArray[np.float64]

    @property
    def centre(self) -> NDArray[np.float64]:
        """Camera centre in world coordinates, [3]."""
        return -self.rotation.T @ self.translation

    @property
    def tan_x(self) -> float:
        """Tangent of half the horizontal field of view."""
        return self.width / (2.0 * self.fx)

    @property
    def tan_y(self) -> float:
        """Tangent of half the vertical field of view."""
        return self.height / (2.0 * self.fy)
