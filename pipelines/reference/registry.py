"""The reference recipes by the name of their pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pipelines.reference.dashgs import DashGS, DashSettings
from pipelines.reference.schedule import StructuralSchedule, structural_schedule
from pipelines.reference.settings import Settings
from pipelines.reference.taminggs import TamingGS, TamingSettings, taming_schedule
from pipelines.reference.threedgs import GaussianSplatting


@dataclass(frozen=True, kw_only=True)
class Family:
    """One pipeline: its recipe, its settings, and the boundaries that its structural events fall on.

    schedule: (settings, steps, batch) → the events as far as they are known without a capture
    """

    recipe: type[GaussianSplatting]
    settings: type[Settings]
    schedule: Callable[[Any, int, int], StructuralSchedule] = structural_schedule


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "3dgs": Family(recipe=GaussianSplatting, settings=Settings),
        "taminggs": Family(recipe=TamingGS, settings=TamingSettings, schedule=taming_schedule),
        "dashgs": Family(recipe=DashGS, settings=DashSettings),
    }
)
