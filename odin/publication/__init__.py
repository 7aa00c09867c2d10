"""When a step's reduced gradient is published: one policy per kind of waiting (§4.3, D§6 Program points)."""

from odin.publication.base import Publication, Window, WindowState
from odin.publication.predicted import PredictedPublication
from odin.publication.urgent import UrgentPublication
from odin.publication.waiting import WaitingPublication

__all__ = [
    "PredictedPublication",
    "Publication",
    "UrgentPublication",
    "WaitingPublication",
    "Window",
    "WindowState",
]
