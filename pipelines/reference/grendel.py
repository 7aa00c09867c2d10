"""Mixed-parallel 3DGS, as Grendel does it: primitives sharded by owner, whole views rendered by ranks (D§6, D§8).

Owners hold adjacent ranges of one Morton order of all primitives. Densification happens at the owner; rows are then
sorted anew over all owners and dealt out evenly, so the model does not depend on how many owners there are.

Legend: n rows of a shard, m rows of a view at its owner, M at the rank that renders it, W ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from odin.arriving import Scalar
from odin.errors import InputError
from odin.keeper import Keeper
from odin.memory import Holding, MemoryCategory
from odin.mixed.owners import Owners
from odin.phases import Phase
from odin.recipe import Event
from odin.rows import ADAM
from odin.shared.meeting import part_of
from odin.table import ParameterTable
from pipelines.columns import COLOUR, COLUMNS, GEOMETRY, XYZ
from pipelines.reference.densify import ShardNoise, alive_rows, grow, small_rows
from pipelines.reference.morton import morton_codes
from pipelines.reference.settings import Settings
from pipelines.reference.threedgs import GaussianSplatting
from pipelines.render.protocol import Projection

# What travels of a projected row: centre, conic, opacity, colour, depth, extents. Its gradient: the first nine.
MEANS, CONICS, OPACITIES, RGB, DEPTHS, EXTENTS = (
    slice(0, 2),
    slice(2, 5),
    slice(5, 6),
    slice(6, 9),
    slice(9, 10),
    slice(10, 12),
)
PROJECTED, GRADIENT = 12, 9


@dataclass(frozen=True, kw_only=True)
class GrendelSettings(Settings):
    """3DGS settings, and how the optimizer is scaled to the batch.

    lr_scale: "sqrt": learning rates × √B, β ** B, ε / √B (FORKS.md), or "none"
    """

    lr_scale: str = "sqrt"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lr_scale not in ("sqrt", "none"):
            raise InputError(f"pipeline.lr_scale is {self.lr_scale!r}; use sqrt, as Grendel does, or none.")
        if self.optimizer != "dense":
            raise InputError("pipeline=grendel has dense Adam only, as upstream; leave pipeline.optimizer out.")


@dataclass(kw_only=True)
class OwnedView:
    """A view as an owner has projected it, with the leaves that its backward needs.

    rows:  int32 [m], the rows that are sent; kept: int64 [m], where they stand among the projected ones
    """

    view: int
    rows: NDArray[np.int32]
    kept: torch.Tensor
    geometry: torch.Tensor
    sent_geometry: torch.Tensor
    sh: torch.Tensor
    rgb: torch.Tensor
    projection: Projection
    projected: torch.Tensor
    direction_gradient: torch.Tensor | None = None

    def holdings(self) -> Iterator[Holding]:
        """The values that were projected (`odin.memory`)."""
        for tensor in (self.geometry, self.sent_geometry, self.sh, self.projected):
            yield MemoryCategory.OTHER, tensor


class GrendelSplatting(GaussianSplatting):
    """3DGS whose table may be one owner's shard. Until `shard` it is the whole model, and trains data-parallel too."""

    first = 0
    projected_columns, gradient_columns = PROJECTED, GRADIENT

    @property
    def scaled(self) -> bool:
        """Whether the optimizer follows the square-root rule."""
        return getattr(self.settings, "lr_scale", "none") == "sqrt"

    def _make_table(self, parameters: torch.Tensor) -> ParameterTable:
        table = super()._make_table(parameters)
        if self.scaled:
            table.adam = ADAM.for_batch(self._batch)
        return table

    def learning_rates(self, step: int) -> NDArray[np.float64]:
        """See GaussianSplatting; times √B under the square-root rule."""
        rates = super().learning_rates(step)
        return rates * np.sqrt(self._batch) if self.scaled else rates

    # Shards -----------------------------------------------------------------------------------------------------

    def shard(self, rank: int, ranks: int) -> None:
        """Keep only the rows of one owner: the same share of rows for each. Raises InputError where some would get
        none."""
        if len(self.table) < ranks:
            raise InputError(
                f"The scene starts from {len(self.table)} points, which cannot be sharded over {ranks} ranks. Use "
                "fewer ranks or a scene with more points."
            )
        part = part_of(len(self.table), rank, ranks)
        self._adopt(self.table.parameters[part], self.table.m[part], self.table.v[part], part.start)

    def _adopt(self, p: torch.Tensor, m: torch.Tensor, v: torch.Tensor, first: int) -> None:
        self.first = first
        self.table.replace(p.clone(), m.clone(), v.clone())
        self.statistics = self.place.statistics(len(self.table))

    def _state(self) -> dict[str, float]:
        return {**super()._state(), "first": float(self.first)}

    def _restore_state(self, state: dict[str, float]) -> None:
        super()._restore_state(state)
        self.first = int(state["first"])

    def whole(self, owners: Owners) -> GrendelSplatting:
        """The model of all shards, the same on every rank: parameters, moments and statistics."""
        table = self.table
        rows = owners.gather_rows(torch.cat([table.parameters, table.m, table.v], dim=1))
        statistics = owners.gather_rows(self.statistics.local)
        other = self.replica()
        p, m, v = rows.split(COLUMNS, dim=1)
        other._adopt(p, m, v, 0)
        other.statistics.local.copy_(statistics)
        return other

    # Owners -----------------------------------------------------------------------------------------------------

    def observe(
        self, view: int, rows: NDArray[np.int32], values: torch.Tensor | None, keeper: Keeper, *, drawn_only: bool
    ) -> OwnedView:
        """See MixedRecipe."""
        camera = self.cameras[view]
        source = self.table.parameters[torch.from_numpy(rows)] if values is None else values
        with keeper.phase(Phase.PROJECT, rows=len(rows)):
            geometry = source[:, GEOMETRY].contiguous().requires_grad_()
            projection = self.renderer.project(geometry, camera)
            drawn = projection.radii > 0 if drawn_only else torch.ones(len(rows), dtype=torch.bool)
            kept = torch.nonzero(drawn)[:, 0]
        with keeper.phase(Phase.COLOUR, rows=len(kept)):
            sent = geometry.detach()[kept].requires_grad_()
            sh = source[kept, COLOUR].contiguous().requires_grad_()
            rgb = self.renderer.colour(sent, sh, camera, self.degree)
        columns = [projection.means2d, projection.conics, projection.opacities[:, None]]
        behind = [projection.depths[:, None], projection.extents]
        projected = torch.cat([torch.cat(columns, dim=1)[kept], rgb, torch.cat(behind, dim=1)[kept]], dim=1).detach()
        return OwnedView(
            view=view,
            rows=rows[kept.numpy()],
            kept=kept,
            geometry=geometry,
            sent_geometry=sent,
            sh=sh,
            rgb=rgb,
            projection=projection,
            projected=projected,
        )

    def return_colours(self, frame: OwnedView, gradient: torch.Tensor) -> NDArray[np.float32]:
        """See MixedRecipe; the view direction's share is kept for the geometry."""
        sh, direction = torch.autograd.grad(
            frame.rgb, [frame.sh, frame.sent_geometry], gradient[:, RGB].contiguous(), allow_unused=True
        )
        frame.direction_gradient = direction
        return sh.numpy()

    def return_geometry(self, frame: OwnedView, gradient: torch.Tensor) -> NDArray[np.float32]:
        """See MixedRecipe."""
        projection, kept = frame.projection, frame.kept
        inputs = [projection.means2d, projection.conics, projection.opacities]
        back = [torch.zeros_like(tensor) for tensor in inputs]
        for full, columns in zip(back, (MEANS, CONICS, OPACITIES), strict=True):
            full[kept] = gradient[:, columns].reshape(len(kept), *full.shape[1:])
        (geometry,) = torch.autograd.grad(inputs, [frame.geometry], back)
        geometry = geometry[kept]
        if frame.direction_gradient is not None:
            geometry = geometry + frame.direction_gradient
        return geometry.numpy()

    def note(self, observed: OwnedView, gradient: torch.Tensor) -> None:
        """See MixedRecipe."""
        camera = self.cameras[observed.view]
        visible = observed.projection.radii[observed.kept] > 0
        size = (camera.width, camera.height)
        self.statistics.observe(observed.rows, gradient[:, MEANS], visible.numpy(), size)

    # The rank that renders ----------------------------------------------------------------------------------------

    def draw(self, view: int, projected: torch.Tensor, keeper: Keeper) -> tuple[Scalar, torch.Tensor]:
        """See MixedRecipe."""
        camera, count = self.cameras[view], len(projected)
        pixels = camera.width * camera.height
        extents = projected[:, EXTENTS].contiguous()
        projection = Projection(
            means2d=projected[:, MEANS].contiguous(),
            conics=projected[:, CONICS].contiguous(),
            opacities=projected[:, OPACITIES].reshape(-1).contiguous(),
            depths=projected[:, DEPTHS].reshape(-1).contiguous(),
            extents=extents,
            radii=torch.ceil(extents.amax(dim=1)).clamp(min=0.0, max=1e9).to(torch.int32),
        )
        rgb = projected[:, RGB].contiguous()
        with keeper.phase(Phase.BIN, rows=count) as work:
            bins = self.renderer.bin(projection, camera)
            work.entries = bins.entries
        with keeper.phase(Phase.BLEND, rows=count, pixels=pixels) as work:
            blended = self.renderer.blend(projection, bins, rgb, camera, self.background)
            work.entries, work.fragments = bins.entries, blended.fragments
        with keeper.phase(Phase.LOSS, pixels=pixels):
            loss, image = self.renderer.loss(blended.image, self._photos[view], self.settings.lambda_dssim)
        with keeper.phase(Phase.BLEND_BACKWARD, rows=count, pixels=pixels) as work:
            back = self.renderer.blend_backward(projection, bins, rgb, blended, image)
            work.entries, work.fragments = bins.entries, blended.fragments
        gradient = torch.cat([back.means2d, back.conics, back.opacities[:, None], back.rgb], dim=1)
        return self.place.scalar(loss), gradient

    # Structure ----------------------------------------------------------------------------------------------------

    def restructure_shard(self, step: int, events: Event, version: int, owners: Owners, keeper: Keeper) -> None:
        """Densify and redistribute, reset opacity, raise the SH degree, in upstream's order."""
        if Event.DENSIFY in events:
            with keeper.phase(Phase.DENSIFY, rows=len(self.table)):
                hot = self._mean_norm() >= self.settings.densify_grad_threshold
                small = small_rows(self.table.values(), self.settings, self.extent)
                clone, split = np.flatnonzero(hot & small), np.flatnonzero(hot & ~small)
            noise = ShardNoise(self.settings.seed, version, owners.counts(len(split)), owners.rank)
            self._redistribute(*self._grown(clone, split, noise), owners, keeper)
        if events == Event.DENSIFY:
            return
        with keeper.phase(Phase.EVENT, rows=len(self.table)):
            self._event(step, events)

    def _grown(
        self, clone: NDArray[np.int64], split: NDArray[np.int64], noise: ShardNoise
    ) -> tuple[torch.Tensor, NDArray[np.int64]]:
        """Rows after clone, split and prune with their moments, float32 [n', 3·59], and what each is: 0 kept, 1 a
        clone, 2 and 3 halves of a split one."""
        table = self.table
        grown = grow(table.values(), clone, split, noise)
        kinds = np.repeat([0, 1, 2, 3], [len(table) - len(split), len(clone), len(split), len(split)])
        alive = alive_rows(grown.parameters, self.settings, self.extent, self.resets > 0)
        source = torch.from_numpy(grown.source[alive])
        m, v = (torch.where((source < 0)[:, None], 0.0, old[source.clamp(min=0)]) for old in (table.m, table.v))
        return torch.cat([torch.from_numpy(grown.parameters[alive]), m, v], dim=1), kinds[alive]

    def _redistribute(self, rows: torch.Tensor, kinds: NDArray[np.int64], owners: Owners, keeper: Keeper) -> None:
        """Sort the rows of all owners along one Morton curve and give every owner the same share of it.

        Equal codes are ordered by kind, then by owner and row, as one owner of everything would have them.
        """
        with keeper.phase(Phase.DENSIFY, rows=len(rows)):
            xyz = rows[:, XYZ].numpy()
            own = np.stack([xyz.min(axis=0), -xyz.max(axis=0)]) if len(xyz) else np.full((2, 3), np.inf, np.float32)
        bounds = owners.gather(torch.from_numpy(own)).amin(dim=0).numpy()
        keys = np.stack([morton_codes(xyz, bounds[0], -bounds[1]).view(np.int64), kinds], axis=1)
        everyone = owners.gather_rows(torch.from_numpy(keys)).numpy()
        counts = owners.counts(len(rows))
        deal = Deal(order=np.lexsort((everyone[:, 1], everyone[:, 0])), counts=counts, rank=owners.rank)
        received = owners.exchange(rows[torch.from_numpy(deal.outgoing)], deal.sizes)
        with keeper.phase(Phase.DENSIFY, rows=len(received)):
            p, m, v = received[torch.from_numpy(deal.incoming)].split(COLUMNS, dim=1)
            self._adopt(p, m, v, deal.first)


class Deal:
    """Who gets which row.

    order:    int64 [N], rows of all owners (in rank order) along the curve
    counts:   int64 [W], rows that each owner has
    outgoing: int64 [n], own rows in the order in which they leave; sizes: int64 [W], how many to whom
    incoming: int64 [n'], for each new own row, where it stands among those received in rank order
    first:    new global id of the first own row
    """

    def __init__(self, *, order: NDArray[np.int64], counts: NDArray[np.int64], rank: int) -> None:
        ranks, total = len(counts), len(order)
        starts = counts.cumsum() - counts
        position = np.empty(total, np.int64)
        position[order] = np.arange(total)
        own = position[starts[rank] : starts[rank] + counts[rank]]
        self.outgoing = np.argsort(own, kind="stable")
        edges = np.array([part_of(total, r, ranks).start for r in range(ranks)] + [total])
        self.sizes = np.diff(np.searchsorted(own[self.outgoing], edges)).astype(np.int64)
        mine = order[edges[rank] : edges[rank + 1]]
        source = np.searchsorted(starts + counts, mine, side="right")
        self.incoming = np.empty(len(mine), np.int64)
        self.incoming[np.argsort(source, kind="stable")] = np.arange(len(mine))
        self.first = int(edges[rank])
