"""Training views at reduced resolution, made once per capture and process (DashGS)."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from pipelines.camera import Camera
from pipelines.capture import Capture
from pipelines.reference.spectrum import ResolutionSchedule, resolution_schedule

Photo = NDArray[np.float32]


def reduced(photo: Photo, scale: float) -> Photo:
    """A photo, float32 [H, W, 3], downscaled by `scale` ≥ 1: bilinear with antialiasing, sides rounded down."""
    image = torch.from_numpy(photo).permute(2, 0, 1)[None]
    size = [max(1, int(side / scale)) for side in photo.shape[:2]]
    small = torch.nn.functional.interpolate(image, size=size, mode="bilinear", antialias=True)
    return np.ascontiguousarray(small[0].permute(1, 2, 0).numpy())


def resized(camera: Camera, width: int, height: int) -> Camera:
    """The camera of an image resampled to another size."""
    x, y = width / camera.width, height / camera.height
    return replace(
        camera, width=width, height=height, fx=camera.fx * x, fy=camera.fy * y, cx=camera.cx * x, cy=camera.cy * y
    )


class Pyramid:
    """The training views of a capture at the scales asked for so far."""

    def __init__(self, capture: Capture) -> None:
        self._photos = [capture.images[i] for i in capture.train]
        self._cameras = [capture.cameras[i] for i in capture.train]
        self._levels: dict[float, tuple[list[Camera], list[Photo]]] = {}
        self._schedules: dict[int, ResolutionSchedule] = {}
        self._lock = threading.Lock()

    def schedule(self, until: int) -> ResolutionSchedule:
        """The resolution schedule that ends at a scaled image count."""
        with self._lock:
            if until not in self._schedules:
                self._schedules[until] = resolution_schedule(self._photos, until)
            return self._schedules[until]

    def level(self, scale: float) -> tuple[list[Camera], list[Photo]]:
        """Cameras and photos, 0…1, downscaled by `scale`; do not write to them."""
        with self._lock:
            if scale not in self._levels:
                full = (np.ascontiguousarray(p, np.float32) / np.float32(255.0) for p in self._photos)
                photos = [reduced(photo, scale) if scale > 1 else photo for photo in full]
                sized = zip(self._cameras, photos, strict=True)
                cameras = [resized(c, p.shape[1], p.shape[0]) if scale > 1 else c for c, p in sized]
                self._levels[scale] = (cameras, photos)
            return self._levels[scale]


_made: dict[tuple[str, bytes], Pyramid] = {}
_making = threading.Lock()


def pyramid_of(capture: Capture) -> Pyramid:
    """The capture's pyramid. One is kept, for all cells of a process and all its ranks."""
    key = (capture.manifest, capture.train.tobytes())
    with _making:
        if key not in _made:
            _made.clear()
            _made[key] = Pyramid(capture)
        return _made[key]
