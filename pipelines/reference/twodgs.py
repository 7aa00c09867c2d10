"""The 2DGS recipe (Huang et al. 2024): surfels, and geometric terms beside the photometric loss.

What it shares with 3DGS (schedule of structural events, densification, statistics, checkpoints) it inherits.

Legend: N rows of the table, M rows of one view.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from odin.arriving import Scalar
from odin.keeper import Keeper
from odin.phases import Phase
from pipelines import surfel_columns as columns
from pipelines.camera import Camera
from pipelines.capture import Capture
from pipelines.place import HOST, Place, Rows
from pipelines.reference.densify import Densified, densify, nothing_left
from pipelines.reference.initialise import initial_parameters
from pipelines.reference.schedule import position_lr
from pipelines.reference.settings import REFERENCE_BUDGET
from pipelines.reference.surfel_settings import SurfelSettings
from pipelines.reference.threedgs import GaussianSplatting
from pipelines.render.culls import SURFELS
from pipelines.render.protocol import Bins
from pipelines.render.surfels.protocol import SurfelBackend, SurfelBlended, SurfelGradients, SurfelProjection


@dataclass(kw_only=True)
class SurfelFrame:
    """A view on its way through a step: private copies of its rows, and what each call left for the next."""

    view: int
    place: Place
    rows: Rows
    geometry: torch.Tensor
    projection: SurfelProjection
    bins: Bins
    sh: torch.Tensor | None = None
    rgb: torch.Tensor | None = None
    gradients: SurfelGradients | None = None
    direction_gradient: torch.Tensor | None = None
    image: torch.Tensor | None = None
    fragments: int = 0

    @property
    def visible(self) -> Rows:
        """Rows with a radius above 0, bool [M]."""
        return self.place.array(self.projection.radii > 0)

    @property
    def active(self) -> Rows:
        """Rows that reached a live pixel, [M]."""
        assert self.gradients is not None
        return self.place.array(self.gradients.contributed)


# The inherited methods hand a view's frame from call to call without looking into it but for rows and image.
Frame = Any


class SurfelSplatting(GaussianSplatting):
    """2DGS with Adam, densification and opacity reset, on a table of 58 columns."""

    kinds: Mapping[str, slice] = MappingProxyType(
        {
            "xyz": columns.XYZ,
            "scale": columns.SCALE,
            "rotation": columns.ROTATION,
            "opacity": columns.OPACITY,
            "f_dc": columns.F_DC,
            "f_rest": columns.F_REST,
        }
    )
    layout = columns.LAYOUT
    settings: SurfelSettings

    shape = columns.GEOMETRY
    culls = SURFELS

    def __init__(
        self,
        capture: Capture,
        settings: SurfelSettings,
        renderer: SurfelBackend,
        *,
        steps: int,
        batch: int,
        place: Place = HOST,
    ) -> None:
        self._surfels = renderer
        super().__init__(capture, settings, cast(Any, renderer), steps=steps, batch=batch, place=place)

    def _initial(self, capture: Capture) -> torch.Tensor:
        """As 3DGS, with two scales and a random rotation (upstream: uniform in 0…1 per component)."""
        table = columns.from_ellipsoids(initial_parameters(capture, self.settings).numpy())
        rng = np.random.default_rng(np.random.SeedSequence([self.settings.seed, 0x2D]))
        table[:, columns.ROTATION] = rng.random((len(table), 4))
        return torch.from_numpy(table)

    # One view -----------------------------------------------------------------------------------------------

    def project(self, view: int, rows: NDArray[np.int32], keeper: Keeper) -> Frame:
        """Gather the geometry of `rows` into a private copy, project and bin it."""
        camera = self.cameras[view]
        with keeper.phase(Phase.PROJECT, rows=len(rows)):
            ids = self.place.rows(rows)
            geometry = self.table.parameters[self.place.index(ids), columns.GEOMETRY]
            projection = self._surfels.project(geometry, camera)
        with keeper.phase(Phase.BIN, rows=len(rows)) as work:
            bins = self._surfels.bin(projection, camera)
            work.entries = bins.entries
        return SurfelFrame(view=view, place=self.place, rows=ids, geometry=geometry, projection=projection, bins=bins)

    def render(self, frame: Frame, keeper: Keeper) -> Scalar:
        """Colour, blend, losses, and the blend's backward to screen space."""
        camera = self.cameras[frame.view]
        pixels = camera.width * camera.height
        with keeper.phase(Phase.COLOUR, rows=len(frame.rows)):
            frame.sh = self.table.parameters[self.place.index(frame.rows), columns.COLOUR]
            frame.rgb = self._surfels.colour(frame.geometry, frame.sh, camera, self.degree)
        with keeper.phase(Phase.BLEND, rows=len(frame.rows), pixels=pixels) as work:
            blended = self._surfels.blend(frame.projection, frame.bins, frame.rgb, camera, self.background)
            frame.image, frame.fragments = blended.image, blended.fragments
            work.entries, work.fragments = frame.bins.entries, blended.fragments
        with keeper.phase(Phase.LOSS, pixels=pixels):
            photo, share = self._photos[frame.view], self.settings.lambda_dssim
            # Evaluated at weight 0 as well: a phase costs the same all through a run.
            weights = self.settings.weights(keeper.step * self._batch, self._budget)
            loss, gradient, maps = self._surfels.loss(blended, photo, share, camera, weights)
        with keeper.phase(Phase.BLEND_BACKWARD, rows=len(frame.rows), pixels=pixels) as work:
            frame.gradients = self._surfels.blend_backward(frame.projection, frame.bins, blended, gradient, maps)
            work.entries, work.fragments = frame.bins.entries, blended.fragments
        return self.place.scalar(loss)

    def backward_colours(self, frame: Frame) -> Rows:
        """SH gradient, float32 [M, 48]; the view direction's share is kept for the geometry."""
        camera = self.cameras[frame.view]
        frame.direction_gradient, sh = self._surfels.colour_backward(
            frame.geometry, frame.sh, camera, self.degree, frame.rgb, frame.gradients.rgb
        )
        return self.place.array(sh)

    def backward_geometry(self, frame: Frame) -> Rows:
        """Geometry gradient, float32 [M, 10]; gathers densification statistics on the way."""
        camera = self.cameras[frame.view]
        geometry, centres = self._surfels.project_backward(frame.geometry, camera, frame.projection, frame.gradients)
        if self._observing:
            self.statistics.observe(frame.rows, centres, frame.visible, (camera.width, camera.height))
        return self.place.array(geometry + frame.direction_gradient)

    def maps(self, camera: Camera) -> SurfelBlended:
        """Everything the renderer makes of a camera from the current table: image, depth, normals, distortion."""
        geometry = self.table.parameters[:, columns.GEOMETRY]
        rows = self.place.index(self.place.rows(self._drawn(camera)))
        projection = self._surfels.project(geometry[rows], camera)
        bins = self._surfels.bin(projection, camera)
        sh = self.table.parameters[rows, columns.COLOUR]
        rgb = self._surfels.colour(geometry[rows], sh, camera, self.degree)
        return self._surfels.blend(projection, bins, rgb, camera, self.background)

    def image(self, camera: Camera) -> NDArray[np.float32]:
        """Render any camera from the current table, float32 [height, width, 3], for evaluation."""
        image: NDArray[np.float32] = self.maps(camera).image.cpu().numpy()
        return image

    # Optimizer and structure ----------------------------------------------------------------------------------

    def learning_rates(self, step: int) -> NDArray[np.float64]:
        """Learning rate of each of the 58 columns at a step; only positions decay."""
        scaled = step * self._batch * REFERENCE_BUDGET / self._budget
        s = self.settings
        lr = np.empty(columns.COLUMNS)
        lr[columns.XYZ] = position_lr(s, scaled, self.extent)
        lr[columns.SCALE], lr[columns.ROTATION] = s.scaling_lr, s.rotation_lr
        lr[columns.OPACITY], lr[columns.F_DC] = s.opacity_lr, s.feature_lr
        lr[columns.F_REST] = s.feature_lr / 20
        return lr

    def _densified(self, step: int, rng: np.random.Generator) -> Densified:
        """As 3DGS, on ellipsoids of no thickness: samples of a split lie in the surfel."""
        ellipsoids, large = columns.as_ellipsoids(self.table.values()), self.resets > 0
        grown = self.table.once(
            lambda: densify(ellipsoids, self._mean_norm(), self.settings, self.extent, rng, prune_large=large)
        )
        if not len(grown.parameters):
            raise nothing_left(len(ellipsoids), self.settings.min_opacity)
        return replace(grown, parameters=columns.from_ellipsoids(grown.parameters))

    def _reset_opacity(self) -> None:
        to = self.settings.reset_opacity_to
        ceiling = np.float32(np.log(to / (1 - to)))
        opacity = self.table.parameters[:, columns.OPACITY]
        opacity.clamp_(max=float(ceiling))
        self.table.m[:, columns.OPACITY] = 0.0
        self.table.v[:, columns.OPACITY] = 0.0
        self.resets += 1
