"""The DashGS recipe (Chen et al. 2025): 3DGS at a resolution and with a number of primitives that grow together.

What differs from 3DGS (upstream at its pin, resolution and densification by frequency):

- training views start downscaled and grow by their spectra; the size changes at densifications only, so a change is
  part of the same barrier, and the last one brings full size. Test views are always at full size;
- a densification prunes first, then clones and splits the rows with the largest statistics, as many as a budget that
  follows the resolution allows; without `max_primitives` the budget itself grows with what 3DGS would have added;
- positions keep their first learning rate until views are at full size.

Without densification there are no events to change the size at; views are at full size throughout.

Legend: N rows of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odin.errors import InputError
from odin.recipe import Event
from pipelines.camera import Camera
from pipelines.capture import Capture
from pipelines.columns import XYZ
from pipelines.place import HOST, Place
from pipelines.reference.densify import Densified, alive_rows, grow, small_rows
from pipelines.reference.pyramid import pyramid_of
from pipelines.reference.schedule import StructuralSchedule, position_lr
from pipelines.reference.settings import REFERENCE_BUDGET, Settings
from pipelines.reference.threedgs import GaussianSplatting
from pipelines.render.protocol import Renderer

_MOMENTUM = 5  # times the initial number
_KEPT = 0.98
_MOMENTUM_STEP = 1_000_000
_FASTEST = 0.2  # growth by one densification


@dataclass(frozen=True, kw_only=True)
class DashSettings(Settings):
    """One DashGS training run. max_primitives: the final budget; None lets it grow."""

    opacity_lr: float = 0.025
    densify_until: int = 27_000
    max_primitives: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_primitives is not None and self.max_primitives < 1:
            raise InputError(f"pipeline.max_primitives is {self.max_primitives}; give at least 1, or null.")


@dataclass(kw_only=True)
class PrimitiveBudget:
    """How many primitives there may be.

    start: initial number; fixed: final number, or None; momentum: without it, how many more than `start`
    """

    start: int
    fixed: int | None
    momentum: int

    @classmethod
    def of(cls, start: int, fixed: int | None) -> PrimitiveBudget:
        """At the start of training."""
        return cls(start=start, fixed=fixed, momentum=_MOMENTUM * start)

    @property
    def most(self) -> int:
        """Primitives allowed at full resolution."""
        return self.fixed if self.fixed is not None else self.start + self.momentum

    def rate(self, rows: int, scale: float, share: float, *, last: bool) -> float:
        """Growth that a densification of `rows` may bring. share: of the schedule that is over."""
        allowed = self.most if last else int((self.most - self.start) / scale ** (2.0 - share)) + self.start
        return min(max((allowed - rows) / rows, 0.0), _FASTEST)

    def grew(self, natural: int) -> None:
        """3DGS would have densified so many rows."""
        self.momentum = max(self.momentum, int(_KEPT * self.momentum + min(_MOMENTUM_STEP, natural)))


def prune_then_densify(
    parameters: NDArray[np.float32],
    mean_norm: NDArray[np.float64],
    settings: Settings,
    extent: float,
    rng: np.random.Generator,
    *,
    rate: float,
) -> tuple[Densified, int]:
    """Prune faint rows; then clone and split those above the threshold that are among the largest statistics, up to a
    table of N · (1 + rate). Also how many rows are above the threshold. mean_norm: float64 [N]"""
    alive = alive_rows(parameters, settings, extent, prune_large=False)
    kept, norm = parameters[alive], mean_norm[alive]
    count = max(0, min(int(len(parameters) * (1.0 + rate) - len(kept)), len(kept)))
    hot = norm >= settings.densify_grad_threshold
    chosen = np.zeros(len(kept), np.bool_)
    chosen[np.argsort(-norm, kind="stable")[:count]] = True
    small = small_rows(kept, settings, extent)
    grown = grow(kept, np.flatnonzero(hot & chosen & small), np.flatnonzero(hot & chosen & ~small), rng)
    before = np.append(np.flatnonzero(alive), -1)  # -1 stays -1
    grown = replace(grown, source=before[grown.source], pruned=int((~alive).sum()))
    return grown, int(hot.sum())


class DashGS(GaussianSplatting):
    """DashGS on one table of parameters. `scale` is the factor by which training views are downscaled now."""

    settings: DashSettings

    def __init__(
        self,
        capture: Capture,
        settings: DashSettings,
        renderer: Renderer,
        *,
        steps: int,
        batch: int,
        place: Place = HOST,
    ) -> None:
        self._pyramid = pyramid_of(capture)
        self._per_step = REFERENCE_BUDGET / steps
        self.scale = 1.0
        self._scales: dict[int, float] = {}
        super().__init__(capture, settings, renderer, steps=steps, batch=batch, place=place)
        self.primitives = PrimitiveBudget.of(len(self.table), settings.max_primitives)
        if self._scales:
            self._resize(self._pyramid.schedule(settings.densify_until).scale(1))
        else:
            self._photos = self.place.photos(capture.photos)

    def _views(self, capture: Capture) -> tuple[list[Camera], Sequence[Any]]:
        """Photos follow once the first size is known: a device need not hold them at full size before."""
        return [capture.cameras[i] for i in capture.train], []

    def _make_schedule(self, steps: int, batch: int) -> StructuralSchedule:
        """Resolution changes are part of densifications."""
        base = super()._make_schedule(steps, batch)
        densifications = [s for s, e in enumerate(base.events) if Event.DENSIFY in e]
        if not densifications:
            return base
        resolution = self._pyramid.schedule(self.settings.densify_until)
        self._full_from = resolution.full_from
        self._scales = {s: resolution.scale((s + 1) * self._per_step) for s in densifications}
        self._scales[densifications[-1]] = 1.0
        events, now = list(base.events), resolution.scale(1)
        for step, scale in self._scales.items():
            if scale != now:
                events[step] |= Event.RESOLUTION
            now = scale
        return replace(base, events=tuple(events))

    def learning_rates(self, step: int) -> NDArray[np.float64]:
        """As 3DGS; positions decay from full resolution on."""
        lr = super().learning_rates(step)
        if self._scales:
            start = self._full_from
            share = (step * self._per_step - start) / (REFERENCE_BUDGET - start)
            lr[XYZ] = position_lr(self.settings, share * REFERENCE_BUDGET, self.extent)
        return lr

    def _densified(self, step: int, rng: np.random.Generator) -> Densified:
        share = min((step + 1) * self._per_step / self.settings.densify_until, 1.0)
        rate = self.primitives.rate(len(self.table), self.scale, share, last=step == max(self._scales))
        parameters, norm = self.table.values(), self._mean_norm()
        grown, natural = prune_then_densify(parameters, norm, self.settings, self.extent, rng, rate=rate)
        self.primitives.grew(natural)
        return grown

    def _event(self, step: int, events: Event) -> None:
        super()._event(step, events)
        if Event.RESOLUTION in events:
            self._resize(self._scales[step])

    def _resize(self, scale: float) -> None:
        self.scale, self._photos = scale, []
        self.cameras, photos = self._pyramid.level(scale)
        self._photos = self.place.photos(photos)
        self._eyes = self.place.eyes(self.cameras)

    def _state(self) -> dict[str, float]:
        return {"scale": self.scale, "momentum": float(self.primitives.momentum)}

    def _restore_state(self, state: dict[str, float]) -> None:
        self._resize(state.get("scale", 1.0))
        self.primitives.momentum = int(state.get("momentum", self.primitives.momentum))
