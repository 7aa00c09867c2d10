"""What mixed parallelism needs of a pipeline: owners observe, ranks render, gradients return, owners update.

Legend: n rows of one owner's shard, m rows of a view at one owner, M rows of a view at the rank that renders it,
S columns of a projected row, G columns of its gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from odin.arriving import Scalar, Scopes
from odin.inflation import Inflation
from odin.keeper import Keeper
from odin.mixed.balance import Balance
from odin.mixed.bands import Band
from odin.mixed.owners import Owners
from odin.recipe import Event
from odin.table import ParameterTable


class Observed(Protocol):
    """One view of a step as an owner has projected it. `rows` are ids in its shard (int32 [m], ascending); what the
    backward needs of their values is kept inside, so that the shard may change meanwhile."""

    view: int
    rows: NDArray[np.int32]

    @property
    def projected(self) -> torch.Tensor:
        """What travels to the rank that renders the view, float32 [m, S]."""
        ...


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """What a rank has of a task.

    loss:     of the view, or the share of the band's pixels in it
    gradient: of the projected rows, float32 [M, G]; of a band, the share of its pixels
    image:    float32 [H, W, 3], in whose rows the task is drawn
    costs:    of each tile row, int64, where divisions follow from them (`Balance.STATE`)
    """

    loss: Scalar
    gradient: torch.Tensor
    image: torch.Tensor
    costs: NDArray[np.int64] | None = None


F = TypeVar("F", bound=Observed)


class MixedRecipe(Protocol[F]):
    """A pipeline whose table is one owner's shard. A row's global id is its place in one order of all owners' rows,
    whoever owns it.

    ids:              global ids of the shard's rows, int32 [n], ascending
    kinds:            columns of each kind of parameter
    balance:          how pixels are assigned to ranks
    tile_rows:        int64 [V], of each training view
    projected_columns: S
    gradient_columns: G
    """

    table: ParameterTable
    ids: NDArray[np.int32]
    kinds: Mapping[str, slice]
    balance: Balance
    tile_rows: NDArray[np.int64]
    projected_columns: int
    gradient_columns: int

    @property
    def device(self) -> torch.device:
        """Where the table is, and what travels."""
        ...

    def scope(self, views: Sequence[int], inflation: Inflation) -> Scopes:
        """Rows of the shard that the views may read, uint64 [V, words(n)]; see `odin.recipe.Recipe.scope`."""
        ...

    def observe(
        self,
        views: Sequence[int],
        rows: Sequence[NDArray[np.int32]],
        values: Sequence[torch.Tensor] | None,
        keeper: Keeper,
        *,
        drawn_only: bool,
    ) -> list[F]:
        """Project and colour rows of several views (int32 [m] of each, ascending): one phase for all of them, because a
        device does it in one call (upstream's gsplat backend hands all cameras of a step to one kernel).

        values:     float32 [m, D] for each view, instead of the table's
        drawn_only: leave out rows that a view does not draw; otherwise exactly its `rows` are kept
        """
        ...

    def needed(self, observed: F, band: Band) -> NDArray[np.int64]:
        """Which of the observed rows a rank needs to draw a band of the view: positions, ascending."""
        ...

    def draw(self, view: int, projected: torch.Tensor, keeper: Keeper, band: Band | None = None) -> Drawn:
        """Blend a view, or a band of its tile rows, from projected rows in ascending global id (float32 [M, S]) and go
        back to them. Equal depths keep the order of ids; rows that are not drawn change no bit."""
        ...

    def placed(self, rows: NDArray[np.int32]) -> Any:
        """Rows of the shard as slots take them: as they are, or on the device."""
        ...

    def return_colours(self, observed: F, gradient: torch.Tensor) -> Any:
        """Gradient of the colour columns of the view's rows, float32 [m, 48], from that of its projected rows; as slots
        take it."""
        ...

    def return_geometry(self, observed: F, gradient: torch.Tensor) -> Any:
        """Gradient of the geometry columns, float32 [m, 11]; after `return_colours`."""
        ...

    def note(self, observed: F, gradient: torch.Tensor) -> None:
        """Gather densification statistics of the view; in every step, also where the gradient is dropped."""
        ...

    def learning_rates(self, step: int) -> NDArray[np.float64]:
        """Learning rate of each column at a step, [D]."""
        ...

    def displacement(self, step: int, bound: float) -> tuple[float, float]:
        """See `odin.recipe.Recipe.displacement`."""
        ...

    def events_after(self, step: int) -> Event:
        """Structural events on the boundary after a step."""
        ...

    def restructure_shard(self, step: int, events: Event, version: int, owners: Owners, keeper: Keeper) -> None:
        """Carry out structural events at flushed state, every owner on its shard, and redistribute rows where owners
        have become unbalanced. Draws are keyed by (seed, version) and global order, so that it does not matter how many
        owners there are and who owns what."""
        ...


class ShardedRecipe(MixedRecipe[F], Protocol[F]):
    """A recipe that starts whole on every rank."""

    def shard(self, rank: int, ranks: int) -> None:
        """Keep only the rows of one owner."""
        ...

    def whole(self, owners: Owners) -> Any:
        """The model of all shards, for evaluation and export; every rank calls it and gets the same."""
        ...
