"""The reference recipes by the name of their pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from pipelines.backend import Backend
from pipelines.capture import Capture
from pipelines.reference.dashgs import DashGS, DashSettings
from pipelines.reference.grendel import GrendelSettings, GrendelSplatting
from pipelines.reference.schedule import StructuralSchedule, structural_schedule
from pipelines.reference.settings import Settings
from pipelines.reference.surfel_settings import SurfelSettings
from pipelines.reference.taminggs import TamingGS, TamingSettings, taming_schedule
from pipelines.reference.threedgs import GaussianSplatting
from pipelines.reference.twodgs import SurfelSplatting
from pipelines.render.cpu import warm_up
from pipelines.render.surfels import warm_up_surfels


@dataclass(frozen=True, kw_only=True)
class Family:
    """One pipeline: its recipe, its settings, and the boundaries that its structural events fall on.

    schedule:  (settings, steps, batch) → the events as far as they are known without a capture
    renderer: which of the backend's renderers draws its primitives
    sharded:   primitives are sharded by owner (`odin.mixed`)
    compile_kernels: compile, or read from Numba's cache, what the recipe runs on the host
    """

    name: str
    recipe: type[GaussianSplatting]
    settings: type[Settings]
    schedule: Callable[[Any, int, int], StructuralSchedule] = structural_schedule
    renderer: Callable[[Backend], Any] = attrgetter("renderer")
    compile_kernels: Callable[[], None] = warm_up
    sharded: bool = False

    def build(
        self, capture: Capture, settings: Settings, backend: Backend, *, steps: int, batch: int
    ) -> GaussianSplatting:
        """A fresh model where the backend says. Raises InputError for settings that a device does not have."""
        recipe: Any = self.recipe
        return recipe(capture, settings, self.renderer(backend), steps=steps, batch=batch, place=backend.place)


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        family.name: family
        for family in (
            Family(name="3dgs", recipe=GaussianSplatting, settings=Settings),
            Family(name="taminggs", recipe=TamingGS, settings=TamingSettings, schedule=taming_schedule),
            Family(name="grendel", recipe=GrendelSplatting, settings=GrendelSettings, sharded=True),
            Family(name="dashgs", recipe=DashGS, settings=DashSettings),
            Family(
                name="2dgs",
                recipe=SurfelSplatting,
                settings=SurfelSettings,
                renderer=lambda backend: backend.surfels(),
                compile_kernels=warm_up_surfels,
            ),
        )
    }
)
