"""The CUDA renderer: tiles and compositing by gsplat, projection, colours and loss in our torch operations."""

from pipelines.render.gsplat.library import load
from pipelines.render.gsplat.renderer import GsplatRenderer

__all__ = ["GsplatRenderer", "load"]
