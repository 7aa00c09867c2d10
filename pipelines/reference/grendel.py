"""Mixed-parallel 3DGS, as Grendel does it: primitives sharded by owner, views rendered by ranks (D§6, D§8).

All primitives have one Morton order, and each row an owner. Densification happens at the owner; rows are then sorted
anew over all owners and dealt out evenly where owners are unbalanced (`redistribute`). The model does not depend on how
many owners there are, nor on who owns what.

Legend: n rows of a shard, m rows of a view at its owner, M at the rank that renders it, W ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from odin.device.upload import as_index
from odin.errors import InputError
from odin.keeper import Keeper
from odin.mixed.balance import Balance
from odin.mixed.bands import Band
from odin.mixed.owners import Owners
from odin.mixed.recipe import Drawn
from odin.phases import Phase
from odin.publication.knowledge import Knowledge
from odin.recipe import Event
from odin.rows import ADAM
from odin.shared.meeting import part_of
from odin.table import ParameterTable
from pipelines.checkpoint import Checkpoint, Header
from pipelines.columns import COLOUR, COLUMNS, GEOMETRY, XYZ
from pipelines.place import HOST, Rows
from pipelines.reference.densify import ShardNoise, alive_rows, grow, nothing_left, small_rows
from pipelines.reference.morton import morton_codes
from pipelines.reference.projected import (
    CONICS,
    EXTENTS,
    GRADIENT,
    MEANS,
    OPACITIES,
    PROJECTED,
    RGB,
    OwnedView,
    joined,
    received,
)
from pipelines.reference.redistribute import Deal, Redistribution, Rule, fullness
from pipelines.reference.settings import Settings
from pipelines.reference.threedgs import GaussianSplatting
from pipelines.render.cpu import bands
from pipelines.render.protocol import Projection

_Coloured = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # geometry and SH of the kept rows, leaves, and their RGB


@dataclass(frozen=True, kw_only=True)
class GrendelSettings(Settings):
    """3DGS settings, how the optimizer is scaled to the batch, and when rows change their owner.

    lr_scale: "sqrt": learning rates × √B, β ** B, ε / √B (FORKS.md), or "none"
    redistribute_every, redistribute_above: see `redistribute.Rule`. Upstream looks at each tenth densification; a run
        here has few of them, so it is looked at each, with upstream's 1.1
    balance: how pixels are assigned to ranks (`odin.mixed.balance.Balance`). Whole views where a step has one for each
        rank: upstream does not balance such batches of images up to 1920 × 1080 either, and a band also renders what
        its loss looks at beyond its edges
    """

    lr_scale: str = "sqrt"
    redistribute_every: int = 1
    redistribute_above: float = 1.1
    balance: str = Balance.VIEWS.value

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lr_scale not in ("sqrt", "none"):
            raise InputError(f"pipeline.lr_scale is {self.lr_scale!r}; use sqrt, as Grendel does, or none.")
        if self.optimizer != "dense":
            raise InputError("pipeline=grendel has dense Adam only, as upstream; leave pipeline.optimizer out.")
        known = [one.value for one in Balance]
        if self.balance not in known:
            raise InputError(f"pipeline.balance is {self.balance!r}; use one of {', '.join(known)}.")
        self.rule  # noqa: B018 (raises for values that mean nothing)

    @property
    def rule(self) -> Rule:
        """When rows move."""
        return Rule(every=self.redistribute_every, above=self.redistribute_above)


class GrendelSplatting(GaussianSplatting):
    """3DGS whose table may be one owner's shard. Until `shard` it is the whole model, and trains data-parallel too.

    ids: int32 [n], places of the shard's rows in the order of all, ascending; kept once it is `sharded`
    redistributions: what became of owners at each densification so far
    """

    projected_columns, gradient_columns = PROJECTED, GRADIENT

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.ids = self.table.every_row
        self.sharded = False
        self.redistributions: list[Redistribution] = []
        self.balance = Balance(getattr(self.settings, "balance", Balance.VIEWS.value))
        if self.balance is not Balance.VIEWS and self.place is not HOST:
            raise InputError(
                f"pipeline.balance={self.balance.value} cuts views by what their rows cost, which the host would have "
                "to read off the device in every step. Use balance=views with device=cuda."
            )
        self.tile_rows = np.array([bands.tile_rows(camera) for camera in self.cameras], np.int64)

    @property
    def device(self) -> torch.device:
        """See MixedRecipe."""
        return self.place.device

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
        part, self.sharded = part_of(len(self.table), rank, ranks), True
        self._adopt(self.table.parameters[part], self.table.m[part], self.table.v[part], self.ids[part])

    def _adopt(self, p: torch.Tensor, m: torch.Tensor, v: torch.Tensor, ids: NDArray[np.int32]) -> None:
        self.ids, place = ids, self.device
        self.table.replace(p.to(place, copy=True), m.to(place, copy=True), v.to(place, copy=True))
        self.statistics = self.place.statistics(len(self.table))

    def checkpoint(self, header: Header, statistics: NDArray[np.int64], knowledge: Knowledge) -> Checkpoint:
        """See GaussianSplatting; with the places of a shard's rows."""
        made = super().checkpoint(header, statistics, knowledge)
        return replace(made, ids=self.ids) if self.sharded else made

    def restore(self, checkpoint: Checkpoint, *, first_rank: bool) -> None:
        """See GaussianSplatting."""
        super().restore(checkpoint, first_rank=first_rank)
        self.sharded = checkpoint.ids is not None
        self.ids = self.table.every_row if checkpoint.ids is None else checkpoint.ids

    def whole(self, owners: Owners) -> GrendelSplatting:
        """The model of all shards, the same on every rank: parameters, moments and statistics."""
        state = self.table.moments
        places = owners.gather_rows(torch.from_numpy(self.ids)[:, None])[:, 0]
        order = torch.argsort(places)
        # One after the other: on a device all shards pass through its memory.
        p, m, v = (owners.gather_rows(torch.from_numpy(part))[order] for part in (state.p, state.m, state.v))
        statistics = owners.gather_rows(torch.from_numpy(self.statistics.sums()))[order]
        other = self.replica()
        other._adopt(p, m, v, places[order].numpy())
        other.statistics.local.copy_(statistics)
        return other

    # Owners -----------------------------------------------------------------------------------------------------

    def observe(
        self,
        views: Sequence[int],
        rows: Sequence[NDArray[np.int32]],
        values: Sequence[torch.Tensor] | None,
        keeper: Keeper,
        *,
        drawn_only: bool,
    ) -> list[OwnedView]:
        """See MixedRecipe."""
        table = self.table.parameters
        sources = [table[as_index(ids, self.device)] for ids in rows] if values is None else values
        with keeper.phase(Phase.PROJECT, rows=sum(map(len, rows))):
            geometries = [source[:, GEOMETRY].contiguous().requires_grad_() for source in sources]
            projections = [self._seen(*one) for one in zip(geometries, views, strict=True)]
            drawn = self._drawn_rows(projections, drawn_only=drawn_only)
        kept = drawn()
        with keeper.phase(Phase.COLOUR, rows=sum(map(len, kept))):
            places = [as_index(one, self.device) for one in kept]
            coloured = [self._coloured(*one) for one in zip(sources, geometries, places, views, strict=True)]
        sent = [ids[one] for ids, one in zip(rows, kept, strict=True)]
        return [self._owned(*one) for one in zip(views, sent, places, geometries, projections, coloured, strict=True)]

    def _drawn_rows(
        self, projections: Sequence[Projection], *, drawn_only: bool
    ) -> Callable[[], list[NDArray[np.int64]]]:
        """Which of the projected rows of each view are sent, when it is asked for. A device stops the host there: how
        many rows travel must be known to make room for them, as upstream's exchange of counts has it."""
        if drawn_only:
            return self.place.chosen([one.radii > 0 for one in projections])
        return lambda: [np.arange(len(one.radii)) for one in projections]

    def _seen(self, geometry: torch.Tensor, view: int) -> Projection:
        return self.renderer.project(geometry, self.cameras[view])

    def _coloured(self, source: torch.Tensor, geometry: torch.Tensor, kept: torch.Tensor, view: int) -> _Coloured:
        sent = geometry.detach()[kept].requires_grad_()
        sh = source[kept, COLOUR].contiguous().requires_grad_()
        return sent, sh, self.renderer.colour(sent, sh, self.cameras[view], self.degree)

    def _owned(
        self,
        view: int,
        rows: NDArray[np.int32],
        kept: torch.Tensor,
        geometry: torch.Tensor,
        projection: Projection,
        coloured: _Coloured,
    ) -> OwnedView:
        sent, sh, rgb = coloured
        columns = [projection.means2d, projection.conics, projection.opacities[:, None]]
        behind = [projection.depths[:, None], projection.extents]
        projected = torch.cat([torch.cat(columns, dim=1)[kept], rgb, torch.cat(behind, dim=1)[kept]], dim=1).detach()
        return OwnedView(
            view=view,
            rows=rows,
            kept=kept,
            geometry=geometry,
            sent_geometry=sent,
            sh=sh,
            rgb=rgb,
            projection=projection,
            projected=projected,
        )

    def placed(self, rows: NDArray[np.int32]) -> Rows:
        """See MixedRecipe."""
        return self.place.rows(rows)

    def return_colours(self, frame: OwnedView, gradient: torch.Tensor) -> Rows:
        """See MixedRecipe; the view direction's share is kept for the geometry."""
        sh, direction = torch.autograd.grad(
            frame.rgb, [frame.sh, frame.sent_geometry], gradient[:, RGB].contiguous(), allow_unused=True
        )
        frame.direction_gradient = direction
        return self.place.array(sh)

    def return_geometry(self, frame: OwnedView, gradient: torch.Tensor) -> Rows:
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
        return self.place.array(geometry)

    def note(self, observed: OwnedView, gradient: torch.Tensor) -> None:
        """See MixedRecipe."""
        camera = self.cameras[observed.view]
        visible = self.place.array(observed.projection.radii[observed.kept] > 0)
        size = (camera.width, camera.height)
        self.statistics.observe(self.placed(observed.rows), gradient[:, MEANS], visible, size)

    # The rank that renders ----------------------------------------------------------------------------------------

    def needed(self, observed: OwnedView, band: Band) -> NDArray[np.int64]:
        """See MixedRecipe."""
        wide = bands.widened(band, self.cameras[observed.view])
        projected = observed.projected.numpy()
        inside = bands.touched(projected[:, MEANS.stop - 1], projected[:, EXTENTS.stop - 1], wide)
        return np.flatnonzero(inside)

    def draw(self, view: int, projected: torch.Tensor, keeper: Keeper, band: Band | None = None) -> Drawn:
        """See MixedRecipe."""
        if band is not None:
            return self._draw_band(view, projected, keeper, band)
        camera, projection, rgb = self.cameras[view], received(projected), projected[:, RGB].contiguous()
        rows, pixels = len(projected), camera.width * camera.height
        with keeper.phase(Phase.BIN, rows=rows) as work:
            bins = self.renderer.bin(projection, camera)
            work.entries = bins.entries
        with keeper.phase(Phase.BLEND, rows=rows, pixels=pixels) as work:
            blended = self.renderer.blend(projection, bins, rgb, camera, self.background)
            work.entries, work.fragments = bins.entries, blended.fragments
        with keeper.phase(Phase.LOSS, pixels=pixels):
            loss, image = self.renderer.loss(blended.image, self._photos[view], self.settings.lambda_dssim)
        with keeper.phase(Phase.BLEND_BACKWARD, rows=rows, pixels=pixels) as work:
            back = self.renderer.blend_backward(projection, bins, rgb, blended, image)
            work.entries, work.fragments = bins.entries, blended.fragments
        costs, every = None, (0, int(self.tile_rows[view]))
        if self.balance is Balance.STATE:
            costs = bands.row_costs(*bands.row_work(blended, bins, every), every, camera)
        return Drawn(loss=self.place.scalar(loss), gradient=joined(back), image=blended.image, costs=costs)

    def _draw_band(self, view: int, projected: torch.Tensor, keeper: Keeper, band: Band) -> Drawn:
        """Blend also what the loss looks at on either side; only the band's own pixels count and go back."""
        camera, projection, rgb = self.cameras[view], received(projected), projected[:, RGB].contiguous()
        wide, rows = bands.widened(band, camera), len(projected)
        own, seen = (camera.width * bands.height(one, camera) for one in (band, wide))
        with keeper.phase(Phase.BIN, rows=rows) as work:
            bins = bands.restricted(self.renderer.bin(projection, camera), wide)
            work.entries = bins.entries
        with keeper.phase(Phase.BLEND, rows=rows, pixels=seen) as work:
            blended = self.renderer.blend(projection, bins, rgb, camera, self.background)
            work.entries, work.fragments = bins.entries, blended.fragments
        with keeper.phase(Phase.LOSS, pixels=own):
            loss, image = bands.loss(blended.image, self._photos[view], band, self.settings.lambda_dssim)
        with keeper.phase(Phase.BLEND_BACKWARD, rows=rows, pixels=own) as work:
            inside = bands.backward_of(blended, bins, band)
            back = self.renderer.blend_backward(projection, bins, rgb, inside, image)
            entries, fragments = bands.row_work(blended, bins, band)
            work.entries, work.fragments = int(entries.sum()), int(fragments.sum())
        costs = bands.row_costs(entries, fragments, band, camera) if self.balance is Balance.STATE else None
        return Drawn(loss=self.place.scalar(loss), gradient=joined(back), image=blended.image, costs=costs)

    # Structure ----------------------------------------------------------------------------------------------------

    def restructure_shard(self, step: int, events: Event, version: int, owners: Owners, keeper: Keeper) -> None:
        """Densify and redistribute, reset opacity, raise the SH degree, in upstream's order."""
        if Event.DENSIFY in events:
            with keeper.phase(Phase.DENSIFY, rows=len(self.table)):
                hot = self._mean_norm() >= self.settings.densify_grad_threshold
                small = small_rows(self.table.values(), self.settings, self.extent)
                clone, split = np.flatnonzero(hot & small), np.flatnonzero(hot & ~small)
            every = owners.gather_rows(torch.from_numpy(self.ids[split])[:, None])[:, 0].numpy()
            noise = ShardNoise(self.settings.seed, version, self.ids[split], every)
            self._redistribute(step, *self._grown(clone, split, noise), owners, keeper)
        if events == Event.DENSIFY:
            return
        with keeper.phase(Phase.EVENT, rows=len(self.table)):
            self._event(step, events)

    def _grown(
        self, clone: NDArray[np.int64], split: NDArray[np.int64], noise: ShardNoise
    ) -> tuple[torch.Tensor, NDArray[np.int64]]:
        """Rows after clone, split and prune with their moments, float32 [n', 3·59], and how they stand among equal
        codes, int64 [n', 2]: what each is (0 kept, 1 a clone, 2 and 3 halves of a split one), and where it was."""
        state = self.table.moments
        grown = grow(state.p, clone, split, noise)
        kept = np.setdiff1d(np.arange(len(state.p)), split, assume_unique=True)
        kinds = np.repeat([0, 1, 2, 3], [len(kept), len(clone), len(split), len(split)])
        origins = self.ids[np.concatenate([kept, clone, split, split])]
        alive = alive_rows(grown.parameters, self.settings, self.extent, self.resets > 0)
        source = torch.from_numpy(grown.source[alive])
        olds = (torch.from_numpy(old) for old in (state.m, state.v))
        m, v = (torch.where((source < 0)[:, None], 0.0, old[source.clamp(min=0)]) for old in olds)
        rows = torch.cat([torch.from_numpy(grown.parameters[alive]), m, v], dim=1)
        return rows, np.stack([kinds, origins], axis=1)[alive]

    def _redistribute(
        self, step: int, rows: torch.Tensor, ties: NDArray[np.int64], owners: Owners, keeper: Keeper
    ) -> None:
        """Sort the rows of all owners along one Morton curve; where the settings' rule says so, give every owner the
        same share of it.

        Equal codes are ordered by kind, then by the place that a row had, as one owner of everything would have them.
        """
        with keeper.phase(Phase.DENSIFY, rows=len(rows)):
            xyz = rows[:, XYZ].numpy()
            own = np.stack([xyz.min(axis=0), -xyz.max(axis=0)]) if len(xyz) else np.full((2, 3), np.inf, np.float32)
        bounds = owners.gather(torch.from_numpy(own)).amin(dim=0).numpy()
        codes = morton_codes(xyz, bounds[0], -bounds[1]).view(np.int64)
        everyone = owners.gather_rows(torch.from_numpy(np.concatenate([codes[:, None], ties], axis=1))).numpy()
        counts = owners.counts(len(rows))
        if not counts.any():
            raise nothing_left(len(self.ids), self.settings.min_opacity)
        self._deal(step, rows, np.lexsort(everyone.T[::-1]), counts, owners, keeper)

    def _deal(
        self,
        step: int,
        rows: torch.Tensor,
        order: NDArray[np.int64],
        counts: NDArray[np.int64],
        owners: Owners,
        keeper: Keeper,
    ) -> None:
        """Deal the rows of all owners out in this order, anew where the settings' rule says so.

        rows: this owner's, with both moments; order: int64 [N], of all rows, owner by owner; counts: rows of each owner
        """
        move = self._rule.moves(counts, self._densifications(step))
        deal = Deal(order=order, counts=counts, rank=owners.rank, move=move)
        leaving = rows[torch.from_numpy(deal.outgoing)]
        arriving = owners.exchange(leaving, deal.sizes) if deal.moved else leaving
        with keeper.phase(Phase.DENSIFY, rows=len(arriving)):
            p, m, v = arriving[torch.from_numpy(deal.incoming)].split(COLUMNS, dim=1)
            self._adopt(p, m, v, deal.ids)
        after = owners.counts(len(arriving)) if deal.moved else counts
        self.redistributions.append(
            Redistribution(step=step, moved=deal.moved, before=fullness(counts), after=fullness(after))
        )

    @property
    def _rule(self) -> Rule:
        return getattr(self.settings, "rule", Rule(every=1, above=1.0))

    def _densifications(self, step: int) -> int:
        """How many densifications there have been, with the one after `step`."""
        return sum(Event.DENSIFY in events for events in self.schedule.events[: step + 1])
