"""The TamingGS recipe (Mallick et al. 2024): 3DGS that grows to a budget, by scores of a few views.

What differs from 3DGS (constants of upstream at its pin):

- each densification may use a share of a primitive budget, and draws what to clone and split by scores
  (`pipelines.reference.scores`) of sampled views, which ranks share;
- f_rest moves every 16th step only, by the sum of its gradients (`odin.held`); not with selective Adam;
- from the "high-opacity" iteration on opacities stay as they are. Upstream takes them out of the optimizer; here their
  learning rate is 0, which leaves every bit in place.

Legend: N rows of the table, M rows of one view, V training views.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from odin.errors import InputError
from odin.keeper import Keeper
from odin.layout import ColumnGroup, ColumnLayout
from odin.phases import Category, Phase
from odin.recipe import Event, Reduce
from odin.table import ParameterTable
from pipelines.capture import Capture
from pipelines.columns import F_DC, F_REST, GEOMETRY, OPACITY, SCALE
from pipelines.place import HOST, Place
from pipelines.reference.densify import Densified
from pipelines.reference.schedule import StructuralSchedule, structural_schedule
from pipelines.reference.scores import FIXED, RowTerms, ViewTerms, add_view, edges, pixel_weights, row_scores
from pipelines.reference.settings import REFERENCE_BUDGET, Settings
from pipelines.reference.taming_densify import budget_at, densify_to_budget, final_budget
from pipelines.reference.threedgs import LAYOUT, GaussianFrame, GaussianSplatting
from pipelines.render.protocol import Bins, Blended, Renderer

HELD_LAYOUT = ColumnLayout(
    groups=(
        ColumnGroup(name="geometry", first=GEOMETRY.start, last=GEOMETRY.stop),
        ColumnGroup(name="f_dc", first=F_DC.start, last=F_DC.stop),
        ColumnGroup(name="f_rest", first=F_REST.start, last=F_REST.stop),
    )
)


class ScoringRenderer(Renderer, Protocol):
    """A renderer that can say what a blended view says about its rows."""

    def pixel_scores(self, bins: Bins, blended: Blended, weights: torch.Tensor) -> torch.Tensor:
        """Sums over pixels, float64 [M, 4]; see `CpuRenderer`. weights: float32 [H, W]."""
        ...


@dataclass(frozen=True, kw_only=True)
class TamingSettings(Settings):
    """One TamingGS training run.

    budget_mode, primitive_budget: `multiplier` of the initial number, or `final_count`
    score_views:  views that are scored at each densification; 0: all
    f_rest_every: f_rest moves every so many steps (upstream's --sh_lower: 16); 1: with the other columns, in each
    freeze_from:  scaled image count after which opacities stay as they are (upstream's --ho_iteration)
    prune_events: densifications that may prune; the last one never does
    """

    opacity_lr: float = 0.025
    shfeature_lr: float = 0.005
    densification_interval: int = 500
    budget_mode: str = "multiplier"
    primitive_budget: float = 2.0
    score_views: int = 10
    f_rest_every: int = 16
    freeze_from: int = 15_000
    prune_events: int = 27

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.budget_mode not in ("multiplier", "final_count"):
            raise InputError(f"pipeline.budget_mode is {self.budget_mode!r}; use multiplier or final_count.")
        if not self.primitive_budget > 0 or not np.isfinite(self.primitive_budget):
            raise InputError(f"pipeline.primitive_budget is {self.primitive_budget}; it must be a number above 0.")
        if self.score_views < 0 or self.f_rest_every < 1:
            raise InputError(
                f"pipeline.score_views is {self.score_views} and pipeline.f_rest_every {self.f_rest_every}; they must "
                "be at least 0 and 1."
            )
        if self.freeze_from < self.densify_until:
            raise InputError(
                f"Opacities would freeze after {self.freeze_from} images and densification end after "
                f"{self.densify_until} (of {REFERENCE_BUDGET}); upstream's optimizer would bring the old opacities "
                "back. Densification must have ended."
            )


def taming_schedule(settings: TamingSettings, steps: int, batch: int) -> StructuralSchedule:
    """The schedule of 3DGS, and the boundary at which opacities freeze, after the last densification."""
    base = structural_schedule(settings, steps, batch)
    last = max((s for s, e in enumerate(base.events) if Event.DENSIFY in e or Event.RESET in e), default=-1)
    due = int(np.ceil(settings.freeze_from * steps / REFERENCE_BUDGET)) - 1
    at, events = max(due, last + 1, 0), list(base.events)
    if at < steps:
        events[at] |= Event.FREEZE
    return replace(base, events=tuple(events))


class TamingGS(GaussianSplatting):
    """TamingGS on one table of parameters."""

    settings: TamingSettings
    renderer: ScoringRenderer

    def __init__(
        self,
        capture: Capture,
        settings: TamingSettings,
        renderer: ScoringRenderer,
        *,
        steps: int,
        batch: int,
        place: Place = HOST,
    ) -> None:
        self._colours = [capture.images[i] for i in capture.train]
        self.frozen = False
        super().__init__(capture, settings, renderer, steps=steps, batch=batch, place=place)
        self.start_count = len(self.table)
        self.budget = final_budget(settings.budget_mode, settings.primitive_budget, self.start_count)
        self._densifications = [s for s, e in enumerate(self.schedule.events) if Event.DENSIFY in e]
        self._scores = np.zeros(len(self.table), np.int64)

    def _make_schedule(self, steps: int, batch: int) -> StructuralSchedule:
        return taming_schedule(self.settings, steps, batch)

    def _make_table(self, parameters: torch.Tensor) -> ParameterTable:
        every, selective = self.settings.f_rest_every, self.settings.optimizer == "selective"
        if selective or every == 1:
            return self.place.table(parameters, LAYOUT, selective=selective)
        return self.place.table(parameters, HELD_LAYOUT, selective=False, hold=every)

    def learning_rates(self, step: int) -> NDArray[np.float64]:
        """As 3DGS; f_rest has a rate of its own, and opacities none once they are frozen."""
        lr = super().learning_rates(step)
        lr[F_REST] = self.settings.shfeature_lr / 20
        if self.frozen:
            lr[OPACITY] = 0.0
        return lr

    # Structure ------------------------------------------------------------------------------------------------

    def _prepare(self, step: int, version: int, reduce: Reduce, keeper: Keeper) -> None:
        """Score sampled views, each on one rank, and sum the scores."""
        rng = np.random.default_rng(np.random.SeedSequence([self.settings.seed, 0x7A, version]))
        count = min(self.settings.score_views or len(self.cameras), len(self.cameras))
        views = rng.permutation(len(self.cameras))[:count]
        scores = np.zeros(len(self.table), np.int64)
        with keeper.counted_as(Category.STRUCTURAL), self.unobserved():
            shared = self._row_scores(keeper)
            for view in views[reduce.rank :: reduce.ranks]:
                self._score(int(view), scores, shared, keeper)
        total = torch.from_numpy(scores).to(self.place.device)
        reduce(total)
        self._scores = _on_host(total)

    def _row_scores(self, keeper: Keeper) -> NDArray[np.float64]:
        with keeper.phase(Phase.SCORE, rows=len(self.table)):
            parameters = self.table.values().astype(np.float64)
            return row_scores(
                RowTerms(
                    gradient=self._mean_norm(),
                    opacity=1.0 / (1.0 + np.exp(-parameters[:, OPACITY.start])),
                    volume=np.exp(parameters[:, SCALE].sum(axis=1)),
                )
            )

    def _score(self, view: int, scores: NDArray[np.int64], shared: NDArray[np.float64], keeper: Keeper) -> None:
        """Render a view as a step would, weigh its pixels, and add its scores."""
        camera, rows = self.cameras[view], len(self.table)
        with keeper.phase(Phase.CULL, rows=rows):
            ids = self._drawn(camera)
        frame = self.project(view, ids, keeper)
        blended = self._blend(frame, keeper)
        pixels = camera.width * camera.height
        with keeper.phase(Phase.LOSS, pixels=pixels):
            loss, _ = self.renderer.loss(blended.image, self._photos[view], self.settings.lambda_dssim)
        with keeper.phase(Phase.SCORE, rows=rows, pixels=pixels) as work:
            work.entries, work.fragments = frame.bins.entries, blended.fragments
            add_view(scores, shared, self._view_terms(frame, ids, blended, float(loss)))

    def _view_terms(self, frame: GaussianFrame, ids: NDArray[np.int32], blended: Blended, loss: float) -> ViewTerms:
        image, photo = _on_host(blended.image), _on_host(torch.as_tensor(self._photos[frame.view]))
        weights = torch.from_numpy(pixel_weights(image, photo, edges(self._colours[frame.view])))
        sums = _on_host(self.renderer.pixel_scores(frame.bins, blended, weights.to(self.place.device)))
        radii, depths = _on_host(frame.projection.radii), _on_host(frame.projection.depths.detach())
        return ViewTerms(
            rows=ids,
            depth=np.where(radii > 0, depths, 0.0).astype(np.float64),
            radius=np.where(radii > 0, radii, 0).astype(np.float64),
            loss=sums[:, 0],
            count=sums[:, 1],
            blend=sums[:, 2],
            distance=sums[:, 3],
            photometric=loss,
        )

    def _densified(self, step: int, rng: np.random.Generator) -> Densified:
        event, events = self._densifications.index(step) + 1, len(self._densifications)
        return densify_to_budget(
            self.table.values(),
            self._mean_norm(),
            self._scores / FIXED,
            self.settings,
            self.extent,
            rng,
            budget=budget_at(event, events, self.start_count, self.budget),
            prune=event <= min(self.settings.prune_events, events - 1),
            prune_large=self.resets > 0,
        )

    def _event(self, step: int, events: Event) -> None:
        super()._event(step, events)
        self.frozen = self.frozen or Event.FREEZE in events

    def _state(self) -> dict[str, float]:
        return {"frozen": float(self.frozen)}

    def _restore_state(self, state: dict[str, float]) -> None:
        self.frozen = bool(state.get("frozen", 0.0))


def _on_host(values: torch.Tensor) -> NDArray[Any]:
    """Values as a numpy array: their own storage on the host, a copy from a device (blocks)."""
    array: NDArray[Any] = values.cpu().numpy()
    return array
