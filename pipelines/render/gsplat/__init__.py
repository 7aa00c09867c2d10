"""The CUDA renderer: tiles and compositing by gsplat, projection, colours and loss in our torch operations."""

from pipelines.render.gsplat.binding import load, load_surfels
from pipelines.render.gsplat.renderer import GsplatRenderer
from pipelines.render.gsplat.surfels import GsplatSurfelRenderer

__all__ = ["GsplatRenderer", "GsplatSurfelRenderer", "load", "load_surfels"]
