"""What the runtime needs of a pipeline (§5: Odin's integration points), and nothing else of it.

Legend: N rows of the table, M rows of one view, D columns, V views asked about, K words of a bitmap (bitmap.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Flag, auto
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from odin.inflation import Inflation
from odin.keeper import Keeper
from odin.table import ParameterTable

Reduce = Callable[[torch.Tensor], None]
"""Sum a tensor over ranks in place, waiting for it on the step's link."""


class Event(Flag):
    """Structural events: each bumps the structural version and is always a barrier (D§3)."""

    NONE = 0
    DENSIFY = auto()  # clone, split, prune; the step's gradient is dropped, as upstream
    RESET = auto()  # opacity reset
    SH_UP = auto()  # one more SH degree


class Frame(Protocol):
    """One view on its way through a step. `rows` are the ids (int32 [M], ascending) it was projected with;
    backward uses the same list and never culls again."""

    view: int
    rows: NDArray[np.int32]


F = TypeVar("F", bound=Frame)


class Recipe(Protocol[F]):
    """A pipeline as the runtime sees it. Calls of one view come in the order in which they stand here."""

    table: ParameterTable

    def scope(self, views: Sequence[int], inflation: Inflation) -> NDArray[np.uint64]:
        """Conservative read scopes R⁺ of views as bitmaps, uint64 [V, K]: every row a view may read or write
        while its values stay within `inflation`. For 3DGS the write scope W⁺ is the same set."""
        ...

    def project(self, view: int, rows: NDArray[np.int32], keeper: Keeper) -> F:
        """Read the geometry of `rows`, project and bin."""
        ...

    def render(self, frame: F, keeper: Keeper) -> float:
        """Read colours, blend, compare with the photo, go back to screen space; the view's loss (a mean over its
        pixels)."""
        ...

    def backward_colours(self, frame: F) -> NDArray[np.float32]:
        """Gradient of the colour columns, float32 [M, 48]."""
        ...

    def backward_geometry(self, frame: F) -> NDArray[np.float32]:
        """Gradient of the geometry columns, float32 [M, 11]; also gathers densification statistics."""
        ...

    def learning_rates(self, step: int) -> NDArray[np.float64]:
        """Learning rate of each column at a step, [D]."""
        ...

    def displacement(self, step: int, bound: float) -> tuple[float, float]:
        """How far that step's update may move a centre (radius, world units) and grow a log-scale, given the
        bound on |update| / lr."""
        ...

    def events_after(self, step: int) -> Event:
        """Structural events on the boundary after a step, known before training starts."""
        ...

    def restructure(self, step: int, events: Event, version: int, reduce: Reduce, keeper: Keeper) -> None:
        """Carry out the structural events after `step` on flushed state; may change N. Random draws are keyed
        by (seed, version) only; statistics are int64 sums over ranks through `reduce`, so no order of addition
        matters."""
        ...
