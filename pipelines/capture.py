"""What a pipeline trains on: cameras, images, SfM points and tracks of one scene, already checked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from odin.tracks import Tracks
from pipelines.camera import Camera


@dataclass(frozen=True, kw_only=True)
class Capture:
    """A scene in memory. V views in file-name order, P points.

    name:     scene name, for labels
    cameras:  V cameras
    images:   V arrays uint8 [height, width, 3], RGB
    train:    int32, indices of training views, ascending
    test:     int32, indices of held-out views, ascending (may be empty)
    points:   float64 [P, 3], world units
    colours:  uint8 [P, 3], RGB
    tracks:   over all V views (see `Tracks.restrict` for the training split)
    manifest: sha256 over what the numbers depend on (files, or cameras + meshes + generator version)
    """

    name: str
    cameras: tuple[Camera, ...]
    images: tuple[NDArray[np.uint8], ...]
    train: NDArray[np.int32]
    test: NDArray[np.int32]
    points: NDArray[np.float64]
    colours: NDArray[np.uint8]
    tracks: Tracks
    manifest: str

    @cached_property
    def photos(self) -> tuple[NDArray[np.float32], ...]:
        """Training images in 0…1, in the order of `train`: converted once, one copy for all models of a process."""
        scale = np.float32(255.0)
        return tuple(np.ascontiguousarray(self.images[i], dtype=np.float32) / scale for i in self.train)
