"""The forks by the name of their pipeline, with the interface of the reference families (`pipelines.reference`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pipelines.adapters.dash import ForkedDash
from pipelines.adapters.grendel import ForkedGrendel
from pipelines.adapters.modules import open_fork
from pipelines.adapters.pins import Pin, pins, require_checkout
from pipelines.adapters.recipe import ForkSplatting
from pipelines.adapters.taming import ForkedTaming
from pipelines.adapters.threedgs import ForkedGaussians
from pipelines.adapters.twodgs import ForkedSurfels
from pipelines.backend import Backend
from pipelines.capture import Capture
from pipelines.place import HOST
from pipelines.reference.registry import FAMILIES
from pipelines.reference.schedule import StructuralSchedule
from pipelines.reference.settings import Settings


@dataclass(frozen=True, kw_only=True)
class ForkFamily:
    """One fork: its adapter, and the settings and schedule of the reference recipe of the same name."""

    name: str
    recipe: type[ForkSplatting]
    sharded: bool = False

    @property
    def pin(self) -> Pin:
        """Which fork, at which commit."""
        return pins()[self.name]

    @property
    def settings(self) -> type[Settings]:
        """As the reference recipe's."""
        return FAMILIES[self.name].settings

    @property
    def schedule(self) -> Callable[[Any, int, int], StructuralSchedule]:
        """As the reference recipe's: forks and references have the same units and floors (D§5)."""
        return FAMILIES[self.name].schedule

    @property
    def compile_kernels(self) -> Callable[[], None]:
        """Kernels of scopes, and of the stand-ins where there are any."""
        return FAMILIES[self.name].compile_kernels

    def build(self, capture: Capture, settings: Settings, backend: Backend, *, steps: int, batch: int) -> ForkSplatting:
        """A fresh model. Raises InputError where the fork is absent or cannot be imported."""
        checkout = require_checkout(self.pin)
        fork = open_fork(checkout, stand_ins=backend.place is HOST)
        return self.recipe(fork, capture, settings, steps=steps, batch=batch, place=backend.place)


FORKS: Mapping[str, ForkFamily] = MappingProxyType(
    {
        family.name: family
        for family in (
            ForkFamily(name="3dgs", recipe=ForkedGaussians),
            ForkFamily(name="2dgs", recipe=ForkedSurfels),
            ForkFamily(name="taminggs", recipe=ForkedTaming),
            ForkFamily(name="dashgs", recipe=ForkedDash),
            ForkFamily(name="grendel", recipe=ForkedGrendel, sharded=True),
        )
    }
)
