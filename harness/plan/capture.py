"""What of a capture the planner looks at: tracks, frusta and file names of its training views."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.run.windows import full_graph
from harness.run.workload import Workload
from odin.planner import Frusta, LocalityGraph
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
        return full_graph(self.tracks, self.frusta)


def training_views(workload: Workload) -> TrainingViews:
    """The training views of a workload."""
    capture, frusta = workload.capture, workload.frusta
    return TrainingViews(
        tracks=workload.tracks,
        centres=frusta.centres,
        frusta=frusta,
        names=tuple(capture.cameras[i].name for i in capture.train),
    )
