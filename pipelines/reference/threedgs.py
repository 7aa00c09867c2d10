"""The 3DGS recipe (Kerbl et al. 2023) on the split renderer: what Odin sees of it is `odin.recipe.Recipe`.

Legend: N rows of the table, M rows of one view, V training views.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from odin.arriving import Scalar, Scopes, taken
from odin.bitmap import row_ids
from odin.inflation import Inflation
from odin.keeper import Keeper
from odin.layout import ColumnGroup, ColumnLayout
from odin.phases import Phase
from odin.publication.knowledge import Knowledge
from odin.recipe import Event, Reduce
from odin.table import ParameterTable
from pipelines.camera import Camera
from pipelines.capture import Capture
from pipelines.checkpoint import Checkpoint, Header
from pipelines.columns import COLOUR, F_DC, F_REST, GEOMETRY, OPACITY, ROTATION, SCALE, XYZ
from pipelines.place import HOST, Place, Rows
from pipelines.reference.densify import Densified, densify, nothing_left, reset_opacity
from pipelines.reference.initialise import initial_parameters, scene_extent
from pipelines.reference.morton import morton_order
from pipelines.reference.schedule import StructuralSchedule, position_lr, structural_schedule
from pipelines.reference.settings import REFERENCE_BUDGET, Settings
from pipelines.reference.statistics import DensificationStatistics
from pipelines.render.culls import GAUSSIANS
from pipelines.render.protocol import Bins, Blended, BlendGradients, Projection, Renderer

LAYOUT = ColumnLayout(
    groups=(
        ColumnGroup(name="geometry", first=GEOMETRY.start, last=GEOMETRY.stop),
        ColumnGroup(name="colour", first=COLOUR.start, last=COLOUR.stop),
    )
)


@dataclass(kw_only=True)
class GaussianFrame:
    """A view on its way through a step: private leaves of its rows, and what each call left for the next."""

    view: int
    place: Place
    rows: Rows
    geometry: torch.Tensor
    projection: Projection
    bins: Bins
    sh: torch.Tensor | None = None
    rgb: torch.Tensor | None = None
    gradients: BlendGradients | None = None
    direction_gradient: torch.Tensor | None = None
    image: torch.Tensor | None = None
    fragments: int = 0

    @property
    def visible(self) -> Rows:
        """Rows with a radius above 0, bool [M]."""
        return self.place.array(self.projection.radii > 0)

    @property
    def active(self) -> Rows:
        """Rows that reached a live pixel, [M]: the rows with a gradient, up to a few per view (SCOPES.md)."""
        assert self.gradients is not None
        return self.place.array(self.gradients.contributed)


class GaussianSplatting:
    """3DGS with Adam, densification and opacity reset, on one table of parameters.

    place: where the table and the photos are; the renderer's too
    """

    kinds: Mapping[str, slice] = MappingProxyType(
        {"xyz": XYZ, "scale": SCALE, "rotation": ROTATION, "opacity": OPACITY, "f_dc": F_DC, "f_rest": F_REST}
    )
    layout = LAYOUT
    shape = GEOMETRY  # columns that say where a row may touch a tile
    culls = GAUSSIANS

    def __init__(
        self,
        capture: Capture,
        settings: Settings,
        renderer: Renderer,
        *,
        steps: int,
        batch: int,
        place: Place = HOST,
    ) -> None:
        self.settings, self.renderer, self.splittable = settings, renderer, renderer.splittable
        self.place = place
        self.cameras, self._photos = self._views(capture)
        self._eyes = place.eyes(self.cameras)
        self._batch, self._budget = batch, steps * batch
        self.extent = scene_extent(self.cameras)
        self.schedule: StructuralSchedule = self._make_schedule(steps, batch)
        self.background = torch.zeros(3, device=place.device)
        self.degree = 0
        self.resets = 0
        self.table = self._make_table(self._ordered(self._initial(capture)))
        self._observing = True
        self.statistics = place.statistics(len(self.table))

    def replica(self) -> Self:
        """Another model in the same state. What never changes (cameras, photos, schedule) is the same object."""
        other = copy.copy(self)
        other.table = self.table.copy()
        other.statistics = self.place.statistics(len(self.table))
        other.statistics.local.copy_(self.statistics.local)
        return other

    # What the recipes built on this one change --------------------------------------------------------------

    def _views(self, capture: Capture) -> tuple[list[Camera], Sequence[Any]]:
        """Training cameras, and what their renderings are compared with."""
        return [capture.cameras[i] for i in capture.train], self.place.photos(capture.photos)

    def _ordered(self, parameters: torch.Tensor) -> torch.Tensor:
        """The initial table in the order of its rows."""
        return parameters[morton_order(parameters[:, XYZ].numpy())]

    def _make_schedule(self, steps: int, batch: int) -> StructuralSchedule:
        return structural_schedule(self.settings, steps, batch)

    def _make_table(self, parameters: torch.Tensor) -> ParameterTable:
        return self.place.table(parameters, self.layout, selective=self.settings.optimizer == "selective")

    def _prepare(self, step: int, version: int, reduce: Reduce, keeper: Keeper) -> None:
        """Before densification, with summed statistics; every rank is here."""

    def _densified(self, step: int, rng: np.random.Generator) -> Densified:
        """The densified table, by summed statistics."""
        large = self.resets > 0
        return self.table.once(
            lambda: densify(self.table.values(), self._mean_norm(), self.settings, self.extent, rng, prune_large=large)
        )

    def _event(self, step: int, events: Event) -> None:
        """Structural events other than densification, in upstream's order."""
        if Event.RESET in events:
            self._reset_opacity()
        if Event.SH_UP in events:
            self.degree = min(self.degree + 1, self.settings.sh_degree)

    def _state(self) -> dict[str, float]:
        """What a checkpoint keeps besides."""
        return {}

    def _restore_state(self, state: dict[str, float]) -> None:
        """The reverse."""

    def _mean_norm(self) -> NDArray[np.float64]:
        return DensificationStatistics.mean_norm(self.statistics.sums())

    def _initial(self, capture: Capture) -> torch.Tensor:
        """The table before its rows are put in order, float32 [N, D]."""
        return initial_parameters(capture, self.settings)

    # Scopes -------------------------------------------------------------------------------------------------

    def scope(self, views: Sequence[int], inflation: Inflation) -> Scopes:
        """R⁺ (and W⁺) of views: rows whose inflated extent may touch a tile, uint64 [V, words(N)]."""
        return self.place.scope(self.culls, self.table, self.shape, self._eyes, views, inflation)

    def displacement(self, step: int, bound: float) -> tuple[float, float]:
        """Ball radius of the centre (√3 · lr · bound) and growth of the log-scale of one update."""
        lr = self.learning_rates(step)
        return float(np.sqrt(3.0) * lr[self.kinds["xyz"]].max() * bound), float(lr[self.kinds["scale"]].max() * bound)

    # One view -----------------------------------------------------------------------------------------------

    def project(self, view: int, rows: NDArray[np.int32], keeper: Keeper) -> GaussianFrame:
        """Gather the geometry of `rows` into a private leaf, project and bin it."""
        camera = self.cameras[view]
        with keeper.phase(Phase.PROJECT, rows=len(rows)):
            ids = self.place.rows(rows)
            geometry = self.table.parameters[self.place.index(ids), GEOMETRY].requires_grad_()
            projection = self.renderer.project(geometry, camera)
        with keeper.phase(Phase.BIN, rows=len(rows)) as work:
            bins = self.renderer.bin(projection, camera)
            work.entries = bins.entries
        return GaussianFrame(view=view, place=self.place, rows=ids, geometry=geometry, projection=projection, bins=bins)

    def render(self, frame: GaussianFrame, keeper: Keeper) -> Scalar:
        """Colour, blend, loss, and the blend's backward to screen space."""
        blended = self._blend(frame, keeper)
        assert frame.rgb is not None
        camera = self.cameras[frame.view]
        pixels = camera.width * camera.height
        with keeper.phase(Phase.LOSS, pixels=pixels):
            photo = self._photos[frame.view]
            loss, gradient = self.renderer.loss(blended.image, photo, self.settings.lambda_dssim)
        with keeper.phase(Phase.BLEND_BACKWARD, rows=len(frame.rows), pixels=pixels) as work:
            frame.gradients = self.renderer.blend_backward(frame.projection, frame.bins, frame.rgb, blended, gradient)
            work.entries, work.fragments = frame.bins.entries, blended.fragments
        return self.place.scalar(loss)

    def _blend(self, frame: GaussianFrame, keeper: Keeper) -> Blended:
        camera = self.cameras[frame.view]
        with keeper.phase(Phase.COLOUR, rows=len(frame.rows)):
            frame.sh = self.table.parameters[self.place.index(frame.rows), COLOUR].requires_grad_()
            frame.rgb = self.renderer.colour(frame.geometry, frame.sh, camera, self.degree)
        with keeper.phase(Phase.BLEND, rows=len(frame.rows), pixels=camera.width * camera.height) as work:
            blended = self.renderer.blend(frame.projection, frame.bins, frame.rgb, camera, self.background)
            frame.image, frame.fragments = blended.image, blended.fragments
            work.entries, work.fragments = frame.bins.entries, blended.fragments
        return blended

    def backward_colours(self, frame: GaussianFrame) -> Rows:
        """SH gradient, float32 [M, 48]; the view direction's share is kept for the geometry."""
        assert frame.rgb is not None and frame.sh is not None and frame.gradients is not None
        sh, direction = torch.autograd.grad(
            frame.rgb, [frame.sh, frame.geometry], frame.gradients.rgb, retain_graph=True, allow_unused=True
        )
        frame.direction_gradient = direction
        return self.place.array(sh)

    def backward_geometry(self, frame: GaussianFrame) -> Rows:
        """Geometry gradient, float32 [M, 11]; gathers densification statistics on the way."""
        projection, gradients = frame.projection, frame.gradients
        assert gradients is not None
        (geometry,) = torch.autograd.grad(
            [projection.means2d, projection.conics, projection.opacities],
            [frame.geometry],
            [gradients.means2d, gradients.conics, gradients.opacities],
        )
        if frame.direction_gradient is not None:
            geometry = geometry + frame.direction_gradient
        if self._observing:
            camera = self.cameras[frame.view]
            self.statistics.observe(frame.rows, gradients.means2d, frame.visible, (camera.width, camera.height))
        return self.place.array(geometry)

    @contextmanager
    def unobserved(self) -> Iterator[None]:
        """Views inside leave no trace in the densification statistics."""
        self._observing = False
        try:
            yield
        finally:
            self._observing = True

    def pixel_change(self, a: GaussianFrame, b: GaussianFrame) -> float:
        """Largest difference of a pixel's channel between two renderings of one view."""
        assert a.image is not None and b.image is not None
        return float((a.image - b.image).abs().max())

    def published(self, step: int) -> None:
        """Nothing depends on when a step is published."""

    def image(self, camera: Camera) -> NDArray[np.float32]:
        """Render any camera from the current table, float32 [height, width, 3], for evaluation."""
        geometry = self.table.parameters[:, GEOMETRY]
        rows = self.place.index(self.place.rows(self._drawn(camera)))
        projection = self.renderer.project(geometry[rows], camera)
        bins = self.renderer.bin(projection, camera)
        rgb = self.renderer.colour(geometry[rows], self.table.parameters[rows, COLOUR], camera, self.degree)
        image: NDArray[np.float32] = (
            self.renderer.blend(projection, bins, rgb, camera, self.background).image.cpu().numpy()
        )
        return image

    def _drawn(self, camera: Camera) -> NDArray[np.int32]:
        """Rows that may touch a tile now."""
        rows, eyes = len(self.table), self.place.eyes([camera])
        bits = taken(self.place.scope(self.culls, self.table, self.shape, eyes, [0], Inflation.none(rows)))
        return row_ids(bits[0], rows)

    # Optimizer and structure ----------------------------------------------------------------------------------

    def learning_rates(self, step: int) -> NDArray[np.float64]:
        """Learning rate of each of the 59 columns at a step; only positions decay."""
        scaled = step * self._batch * REFERENCE_BUDGET / self._budget
        lr = np.empty(LAYOUT.columns)
        lr[XYZ] = position_lr(self.settings, scaled, self.extent)
        lr[SCALE], lr[ROTATION] = self.settings.scaling_lr, self.settings.rotation_lr
        lr[OPACITY], lr[F_DC] = self.settings.opacity_lr, self.settings.feature_lr
        lr[F_REST] = self.settings.feature_lr / 20
        return lr

    def events_after(self, step: int) -> Event:
        """Events on the boundary after a step."""
        return self.schedule.events[step]

    def restructure(self, step: int, events: Event, version: int, reduce: Reduce, keeper: Keeper) -> None:
        """Densify, reset opacity, raise the SH degree, in upstream's order."""
        if Event.DENSIFY in events:
            reduce(self.statistics.local)
            self._prepare(step, version, reduce, keeper)
            with keeper.phase(Phase.DENSIFY, rows=len(self.table)):
                rng = np.random.default_rng(np.random.SeedSequence([self.settings.seed, 0xDE, version]))
                self._install(self._densified(step, rng))
        if events == Event.DENSIFY:
            return
        with keeper.phase(Phase.EVENT, rows=len(self.table)):
            self._event(step, events)

    def _install(self, result: Densified) -> None:
        if not len(result.parameters):
            raise nothing_left(len(self.table), self.settings.min_opacity)
        self.table.replace(*self.table.once(lambda: self._continued(result)))
        self.statistics = self.place.statistics(len(self.table))

    def _continued(self, result: Densified) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, NDArray[np.int64]]:
        """Parameters and moments of a densified table in Morton order, and the row that each continues."""
        table = self.table
        order = morton_order(result.parameters[:, XYZ])
        source = result.source[order]
        kept = torch.from_numpy(source).to(self.place.device)
        m, v = (torch.where((kept < 0)[:, None], 0.0, old[kept.clamp(min=0)]) for old in (table.m, table.v))
        return torch.from_numpy(result.parameters[order]).to(self.place.device), m, v, source

    def _reset_opacity(self) -> None:
        values = self.table.values()
        reset_opacity(values, self.settings)
        self.table.parameters[:, OPACITY] = torch.from_numpy(values[:, OPACITY]).to(self.place.device)
        self.table.m[:, OPACITY] = 0.0
        self.table.v[:, OPACITY] = 0.0
        self.resets += 1

    # State ----------------------------------------------------------------------------------------------------

    def checkpoint(self, header: Header, statistics: NDArray[np.int64], knowledge: Knowledge) -> Checkpoint:
        """The whole state at flushed state. statistics: int64 [N, 2], summed over ranks; knowledge: the arm's."""
        table, held = self.table.moments, self.table.held
        header = replace(header, state=self._state(), held_t=0 if held is None else held.t)
        return Checkpoint(
            header=header,
            parameters=table.p,
            m=table.m,
            v=table.v,
            statistics=statistics,
            evidence=knowledge.evidence,
            costs=knowledge.costs,
            held=None if held is None else held.host_sums(),
        )

    def restore(self, checkpoint: Checkpoint, *, first_rank: bool) -> None:
        """Continue from a checkpoint. The summed statistics go to one rank, the others start from zero."""
        header = checkpoint.header
        arrays = (checkpoint.parameters, checkpoint.m, checkpoint.v)
        p, m, v = (torch.from_numpy(a.copy()).to(self.place.device) for a in arrays)
        self.table.replace(p, m, v)
        self.table.t = header.t
        if self.table.held is not None and checkpoint.held is not None:
            self.table.held.restore(header.held_t, checkpoint.held)
        self._restore_state(header.state)
        self.degree, self.resets = header.sh_degree, header.resets
        self.statistics = self.place.statistics(len(self.table))
        if first_rank:
            self.statistics.local.copy_(torch.from_numpy(checkpoint.statistics))
