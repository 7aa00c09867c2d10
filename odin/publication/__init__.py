"""When a step's reduced gradient is published: one policy per kind of waiting (§4.3, D§6 Program points)."""

from odin.publication.base import Publication
from odin.publication.gated import ChunkedPublication, GatedPublication, LiteralPublication
from odin.publication.predicted import PredictedPublication
from odin.publication.scoped import ScopedPublication
from odin.publication.urgent import AllOrNonePublication, UrgentPublication
from odin.publication.waiting import WaitingPublication
from odin.publication.window import Window, WindowState

__all__ = [
    "AllOrNonePublication",
    "ChunkedPublication",
    "GatedPublication",
    "LiteralPublication",
    "PredictedPublication",
    "Publication",
    "ScopedPublication",
    "UrgentPublication",
    "WaitingPublication",
    "Window",
    "WindowState",
]
