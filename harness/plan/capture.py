"""What of a capture the planner looks at: tracks, frusta and file names of its training views."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.run.workload import Workload
from odin.planner import Frusta, LocalityGraph, frustum_graph, locality_graph
from odin.tracks import Tracks


@dataclass(frozen=True, kw_only=True)
class TrainingViews:
    """Training views of a capture. V views.

    centres: float64 [V, 3]; tracks: restricted to these views
    """

    tracks: Tracks
    centres: NDArray[np.float64]
    frusta: Frusta
    names: tuple[str, ...]

    def full_graph(self) -> LocalityGraph:
        """The coupling with all its edges, by tracks or, where there are none, by frusta."""
        if len(self.tracks.views):
            return locality_graph(self.tracks, top_k=None)
        return frustum_graph(self.frusta, top_k=None)


def training_views(workload: Workload) -> TrainingViews:
    """The training views of a workload."""
    capture = workload.capture
    cameras = [capture.cameras[i] for i in capture.train]
    centres = np.stack([camera.centre for camera in cameras])
    return TrainingViews(
        tracks=capture.tracks.restrict(capture.train),
        centres=centres,
        frusta=Frusta(
            centres=centres,
            rotations=np.stack([camera.rotation for camera in cameras]),
            tan_x=np.array([camera.tan_x for camera in cameras]),
            tan_y=np.array([camera.tan_y for camera in cameras]),
        ),
        names=tuple(camera.name for camera in cameras),
    )
