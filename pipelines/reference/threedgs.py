"""The 3DGS recipe (Kerbl et al. 2023) on the split renderer: what Odin sees of it is `odin.recipe.Recipe`.

Legend: N rows of the table, M rows of one view, V training views.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch
from numpy.typing import NDArray

from odin.inflation import Inflation
from odin.keeper import Keeper
from odin.layout import ColumnGroup, ColumnLayout
from odin.phases import Phase
from odin.recipe import Event, Reduce
from odin.table import ParameterTable
from pipelines.camera import Camera
from pipelines.capture import Capture
from pipelines.checkpoint import Checkpoint, Header
from pipelines.columns import COLOUR, F_DC, F_REST, GEOMETRY, OPACITY, ROTATION, SCALE, XYZ
from pipelines.reference.densify import Densified, densify, reset_opacity
from pipelines.reference.initialise import initial_parameters, scene_extent
from pipelines.reference.morton import morton_order
from pipelines.reference.schedule import StructuralSchedule, position_lr, structural_schedule
from pipelines.reference.settings import REFERENCE_BUDGET, Settings
from pipelines.reference.statistics import DensificationStatistics
from pipelines.render.cull import cull_many, cull_packed
from pipelines.render.protocol import Bins, BlendGradients, Projection, Renderer
from pipelines.render.ssim import l1_dssim

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
    rows: NDArray[np.int32]
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
    def visible(self) -> NDArray[np.bool_]:
        """Rows with a radius above 0, [M]."""
        return self.projection.radii.numpy() > 0

    @property
    def active(self) -> NDArray[np.bool_]:
        """Rows that reached a live pixel, [M]: the rows with a gradient, up to a few per view (SCOPES.md)."""
        assert self.gradients is not None
        return self.gradients.contributed.numpy()


class GaussianSplatting:
    """3DGS with Adam, densification and opacity reset, on one table of parameters."""

    kinds: Mapping[str, slice] = MappingProxyType(
        {"xyz": XYZ, "scale": SCALE, "rotation": ROTATION, "opacity": OPACITY, "f_dc": F_DC, "f_rest": F_REST}
    )
    layout = LAYOUT

    def __init__(self, capture: Capture, settings: Settings, renderer: Renderer, *, steps: int, batch: int) -> None:
        self.settings, self.renderer, self.splittable = settings, renderer, renderer.splittable
        self.cameras = [capture.cameras[i] for i in capture.train]
        self._photos = [_as_float(capture.images[i]) for i in capture.train]
        self._batch, self._budget = batch, steps * batch
        self.extent = scene_extent(self.cameras)
        self.schedule: StructuralSchedule = structural_schedule(settings, steps, batch)
        self.background = torch.zeros(3)
        self.degree = 0
        self.resets = 0
        parameters = self._initial(capture)
        order = morton_order(parameters[:, XYZ].numpy())
        self.table = ParameterTable(parameters[order], self.layout, selective=settings.optimizer == "selective")
        self._observing = True
        self.statistics = DensificationStatistics(len(self.table))

    def _initial(self, capture: Capture) -> torch.Tensor:
        """The table before its rows are put in order, float32 [N, D]."""
        return initial_parameters(capture, self.settings)

    # Scopes -------------------------------------------------------------------------------------------------

    def scope(self, views: Sequence[int], inflation: Inflation) -> NDArray[np.uint64]:
        """R⁺ (and W⁺) of views: rows whose inflated extent may touch a tile, uint64 [V, words(N)]."""
        geometry = self.table.parameters[:, GEOMETRY].numpy()
        return cull_packed(geometry, [self.cameras[v] for v in views], inflation)

    def displacement(self, step: int, bound: float) -> tuple[float, float]:
        """Ball radius of the centre (√3 · lr · bound) and growth of the log-scale of one update."""
        lr = self.learning_rates(step)
        return float(np.sqrt(3.0) * lr[XYZ].max() * bound), float(lr[SCALE].max() * bound)

    # One view -----------------------------------------------------------------------------------------------

    def project(self, view: int, rows: NDArray[np.int32], keeper: Keeper) -> GaussianFrame:
        """Gather the geometry of `rows` into a private leaf, project and bin it."""
        camera = self.cameras[view]
        with keeper.phase(Phase.PROJECT, rows=len(rows)):
            geometry = self.table.parameters[torch.from_numpy(rows), GEOMETRY].requires_grad_()
            projection = self.renderer.project(geometry, camera)
        with keeper.phase(Phase.BIN, rows=len(rows)) as work:
            bins = self.renderer.bin(projection, camera)
            work.entries = bins.entries
        return GaussianFrame(view=view, rows=rows, geometry=geometry, projection=projection, bins=bins)

    def render(self, frame: GaussianFrame, keeper: Keeper) -> float:
        """Colour, blend, loss, and the blend's backward to screen space."""
        camera = self.cameras[frame.view]
        pixels = camera.width * camera.height
        with keeper.phase(Phase.COLOUR, rows=len(frame.rows)):
            frame.sh = self.table.parameters[torch.from_numpy(frame.rows), COLOUR].requires_grad_()
            frame.rgb = self.renderer.colour(frame.geometry, frame.sh, camera, self.degree)
        with keeper.phase(Phase.BLEND, rows=len(frame.rows), pixels=pixels) as work:
            blended = self.renderer.blend(frame.projection, frame.bins, frame.rgb, camera, self.background)
            frame.image, frame.fragments = blended.image, blended.fragments
            work.entries, work.fragments = frame.bins.entries, blended.fragments
        with keeper.phase(Phase.LOSS, pixels=pixels):
            photo = self._photos[frame.view]
            loss, gradient = l1_dssim(blended.image, photo, self.settings.lambda_dssim)
        with keeper.phase(Phase.BLEND_BACKWARD, rows=len(frame.rows), pixels=pixels) as work:
            frame.gradients = self.renderer.blend_backward(frame.projection, frame.bins, frame.rgb, blended, gradient)
            work.entries, work.fragments = frame.bins.entries, blended.fragments
        return loss

    def backward_colours(self, frame: GaussianFrame) -> NDArray[np.float32]:
        """SH gradient, float32 [M, 48]; the view direction's share is kept for the geometry."""
        assert frame.rgb is not None and frame.sh is not None and frame.gradients is not None
        sh, direction = torch.autograd.grad(
            frame.rgb, [frame.sh, frame.geometry], frame.gradients.rgb, retain_graph=True, allow_unused=True
        )
        frame.direction_gradient = direction
        return sh.numpy()

    def backward_geometry(self, frame: GaussianFrame) -> NDArray[np.float32]:
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
        self._observe(frame, gradients.means2d, self.cameras[frame.view])
        return geometry.numpy()

    def _observe(self, frame: GaussianFrame, means2d: torch.Tensor, camera: Camera) -> None:
        """Upstream's statistic is the norm of the gradient in normalised device coordinates."""
        if not self._observing:
            return
        half = np.array([camera.width / 2, camera.height / 2], np.float32)
        ndc = means2d.numpy() * half
        norms = np.sqrt(ndc[:, 0] * ndc[:, 0] + ndc[:, 1] * ndc[:, 1])
        self.statistics.add(frame.rows, norms, frame.visible)

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
        mask = cull_many(geometry.numpy(), [camera], Inflation.none(len(geometry)))[0]
        rows = torch.from_numpy(np.flatnonzero(mask))
        projection = self.renderer.project(geometry[rows], camera)
        bins = self.renderer.bin(projection, camera)
        rgb = self.renderer.colour(geometry[rows], self.table.parameters[rows, COLOUR], camera, self.degree)
        return self.renderer.blend(projection, bins, rgb, camera, self.background).image.numpy()

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
            with keeper.phase(Phase.DENSIFY, rows=len(self.table)):
                self._densify(version)
        if events == Event.DENSIFY:
            return
        with keeper.phase(Phase.EVENT, rows=len(self.table)):
            if Event.RESET in events:
                self._reset_opacity()
            if Event.SH_UP in events:
                self.degree = min(self.degree + 1, self.settings.sh_degree)

    def _densify(self, version: int) -> None:
        table = self.table
        norm = DensificationStatistics.mean_norm(self.statistics.local.numpy())
        rng = np.random.default_rng(np.random.SeedSequence([self.settings.seed, 0xDE, version]))
        result = self._densified(table.parameters.numpy(), norm, rng)
        order = morton_order(result.parameters[:, XYZ])
        source = torch.from_numpy(result.source[order])
        fresh = (source < 0)[:, None]
        m, v = (torch.where(fresh, 0.0, old[source.clamp(min=0)]) for old in (table.m, table.v))
        table.replace(torch.from_numpy(result.parameters[order]), m, v, source.numpy())
        self.statistics = DensificationStatistics(len(table))

    def _densified(
        self, parameters: NDArray[np.float32], norm: NDArray[np.float64], rng: np.random.Generator
    ) -> Densified:
        """Clone, split and prune rows of mean screen-space gradient `norm` [N]."""
        return densify(parameters, norm, self.settings, self.extent, rng, prune_large=self.resets > 0)

    def _reset_opacity(self) -> None:
        reset_opacity(self.table.parameters.numpy(), self.settings)
        self.table.m[:, OPACITY] = 0.0
        self.table.v[:, OPACITY] = 0.0
        self.resets += 1

    # State ----------------------------------------------------------------------------------------------------

    def checkpoint(self, header: Header, statistics: NDArray[np.int64]) -> Checkpoint:
        """The whole state at flushed state. statistics: int64 [N, 2], summed over ranks."""
        table = self.table.moments
        return Checkpoint(header=header, parameters=table.p, m=table.m, v=table.v, statistics=statistics)

    def restore(self, checkpoint: Checkpoint, *, first_rank: bool) -> None:
        """Continue from a checkpoint. The summed statistics go to one rank, the others start from zero."""
        header = checkpoint.header
        p, m, v = (torch.from_numpy(a.copy()) for a in (checkpoint.parameters, checkpoint.m, checkpoint.v))
        self.table.replace(p, m, v)
        self.table.t = header.t
        self.degree, self.resets = header.sh_degree, header.resets
        self.statistics = DensificationStatistics(len(self.table))
        if first_rank:
            self.statistics.local.copy_(torch.from_numpy(checkpoint.statistics))


def _as_float(image: NDArray[np.uint8]) -> NDArray[np.float32]:
    return np.ascontiguousarray(image, dtype=np.float32) / np.float32(255.0)
