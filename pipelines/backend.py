"""What a rank renders with, and where: a renderer and the place of its table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from odin.device.streams import Streams
from pipelines.place import HOST, Place
from pipelines.render.cpu import CpuRenderer
from pipelines.render.protocol import Renderer
from pipelines.render.surfels import SurfelRenderer
from pipelines.render.surfels.protocol import SurfelBackend


@dataclass(frozen=True, kw_only=True)
class Backend:
    """Renderers and the place that their arguments are in.

    surfels: makes the renderer of surfels; raises InputError where there is none
    """

    renderer: Renderer
    place: Place
    surfels: Callable[[], SurfelBackend] = SurfelRenderer


CPU = Backend(renderer=CpuRenderer(), place=HOST)


class NoRenderer:
    """In the place of a renderer where the pipeline brings its own, which is one call."""

    splittable = False


def own_backend(streams: Streams) -> Backend:
    """The device of `streams` for a pipeline that renders by itself (the forks), which needs no gsplat."""
    from pipelines.device_place import DevicePlace

    return Backend(renderer=cast(Renderer, NoRenderer()), place=DevicePlace(streams))


def cuda_backend(streams: Streams) -> Backend:
    """gsplat on the device of `streams`. Raises InputError where it is missing."""
    from pipelines.device_place import DevicePlace
    from pipelines.render.gsplat import GsplatRenderer, GsplatSurfelRenderer

    return Backend(renderer=GsplatRenderer(), place=DevicePlace(streams), surfels=GsplatSurfelRenderer)
