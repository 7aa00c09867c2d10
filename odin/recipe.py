"""What the runtime needs of a pipeline (§5: Odin's integration points), and nothing else of it.

Legend: N rows of the table, M rows of one view, D columns, V views asked about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from enum import Flag, auto
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from odin.arriving import Scalar, Scopes
from odin.inflation import Inflation
from odin.keeper import Keeper
from odin.table import ParameterTable


class Reduce(Protocol):
    """Sums a tensor over ranks in place, waiting for it on the step's link; and which share of work that all ranks
    could do is this one's."""

    rank: int
    ranks: int

    def __call__(self, tensor: torch.Tensor) -> None:
        """Sum over ranks; every rank calls with the same shape and type."""
        ...


class Event(Flag):
    """Structural events: each bumps the structural version and is always a barrier (D§3)."""

    NONE = 0
    DENSIFY = auto()  # clone, split, prune; the step's gradient is dropped, as upstream
    RESET = auto()  # opacity reset
    SH_UP = auto()  # one more SH degree
    FREEZE = auto()  # TamingGS: opacities stay as they are from here on
    RESOLUTION = auto()  # DashGS: training views at another resolution, always with DENSIFY


class Frame(Protocol):
    """One view on its way through a step. `rows` are the ids (int32 [M], ascending) it was projected with;
    backward uses the same list and never culls again. Arrays are those of the table's place: on a device tensors
    (`rows` int64), which nothing in a step looks into."""

    view: int
    rows: Any

    @property
    def visible(self) -> Any:
        """Rows that the view draws (radius above 0), [M]; selective Adam updates them."""
        ...

    @property
    def active(self) -> Any:
        """C: rows that took part and have a gradient, [M]; known after `render`."""
        ...

    @property
    def fragments(self) -> int:
        """Fragments composited, the view's cost; known after `render`."""
        ...


F = TypeVar("F", bound=Frame)


class Recipe(Protocol[F]):
    """A pipeline as the runtime sees it. Calls of one view come in the order in which they stand here."""

    table: ParameterTable
    splittable: bool  # colours are first read by the blend; a monolithic renderer reads whole rows at once
    kinds: Mapping[str, slice]  # kinds of parameters, by column

    def scope(self, views: Sequence[int], inflation: Inflation) -> Scopes:
        """Conservative read scopes R⁺ of views, packed (odin/bitmap.py), uint64 [V, K]: every row a view may read or
        write while its values stay within `inflation`. For splatting the write scope W⁺ is the same set. Where the
        host runs ahead of the table they are still arriving."""
        ...

    def project(self, view: int, rows: NDArray[np.int32], keeper: Keeper) -> F:
        """Read the geometry of `rows`, project and bin."""
        ...

    def render(self, frame: F, keeper: Keeper) -> Scalar:
        """Read colours, blend, compare with the photo, go back to screen space; the view's loss (a mean over its
        pixels)."""
        ...

    def backward_colours(self, frame: F) -> Any:
        """Gradient of the colour columns, float32 [M, 48], as the table's slots take it."""
        ...

    def backward_geometry(self, frame: F) -> Any:
        """Gradient of the geometry columns, float32 [M, 11]; also gathers densification statistics."""
        ...

    def unobserved(self) -> AbstractContextManager[None]:
        """Views inside are computed for comparison: they leave no trace in statistics."""
        ...

    def pixel_change(self, a: F, b: F) -> float:
        """Largest difference of a pixel's channel between two renderings of one view, 0…1."""
        ...

    def published(self, step: int) -> None:
        """The step's update is applied to every row."""
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
