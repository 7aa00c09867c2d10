"""What re-timing needs of a trained trajectory. Legend: N rows, B views of a step, K words of a bitmap."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from odin.keeper import Work
from odin.phases import Category, Phase

Bits = NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True)
class ViewWork:
    """What one view of one step composited; rows are those of the arm that is timed."""

    entries: int
    fragments: int
    pixels: int


@dataclass(frozen=True, kw_only=True)
class EventWork:
    """A phase of a structural event, or a sum over ranks (`phase` is None) of int64 values of a shape."""

    phase: Phase | None
    category: Category | None = None
    work: Work = field(default_factory=Work)
    shape: tuple[int, ...] = ()


@dataclass(kw_only=True)
class Trajectory:
    """One rank's share of a trajectory; scopes and row counts are the same on all ranks.

    rows:   N at the start
    scopes: step → packed scopes of its views in unit order as an exact arm took them, [B, K]
    culls:  (step, view) → the view's rows by the plain predicate at its projection, [K]
    views:  (step, view) → work
    grown:  step → N after the structural events that follow it
    losses: (step, view) → loss
    events: step → what the structural events after it did on this rank
    """

    rows: int
    scopes: dict[int, Bits] = field(default_factory=dict)
    culls: dict[tuple[int, int], Bits] = field(default_factory=dict)
    views: dict[tuple[int, int], ViewWork] = field(default_factory=dict)
    grown: dict[int, int] = field(default_factory=dict)
    losses: dict[tuple[int, int], float] = field(default_factory=dict)
    events: dict[int, list[EventWork]] = field(default_factory=dict)
