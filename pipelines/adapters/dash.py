"""The adapter for DashGaussian (YouyuChen0207/DashGaussian): 3DGS under its scheduler of resolution and primitives."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from odin.recipe import Event
from pipelines.adapters.cameras import our_camera, watched
from pipelines.adapters.threedgs import MIN_OPACITY, ForkedGaussians
from pipelines.capture import Capture
from pipelines.reference.dashgs import DashSettings
from pipelines.reference.settings import Settings


class ForkedDash(ForkedGaussians):
    """DashGaussian: photos grow in resolution, primitives along with them."""

    settings: DashSettings

    def _words(self, settings: Settings) -> list[str]:
        words = ["--resolution_mode", "freq", "--densify_mode", "freq"]
        most = getattr(settings, "max_primitives", None)
        return super()._words(settings) + words + (["--max_n_gaussian", str(most)] if most else [])

    def _set_up(self, capture: Capture) -> None:
        self._numbers = {id(view): number for number, view in enumerate(self.views)}
        schedules, photos = self.fork.module("utils.schedule_utils"), [view.original_image for view in self.views]
        with self.fork.device():
            self.scheduler = schedules.TrainingScheduler(self.options, self.pipe, self.gaussians, photos)
        grows = [step for step, events in enumerate(self.schedule.events) if Event.DENSIFY in events]
        # The scheduler is asked where rows change: without that, and after the last time, photos have their full size.
        self._last = max(grows, default=-1)
        self._resize(float(self.scheduler.get_res_scale(1)) if grows else 1.0)

    def _resize(self, scale: float) -> None:
        """Train at 1 / scale of the photos' resolution from here on."""
        self.scale = scale
        sizes: dict[tuple[int, int], tuple[int, int]] = {}  # of photos, resized as they will be
        with self.fork.device():
            for number, view in enumerate(self.views):
                whole = int(view.image_height), int(view.image_width)
                if whole not in sizes:
                    height, width = self._photo(number).shape[-2:]
                    sizes[whole] = int(height), int(width)
        self.cameras = [our_camera(v, sizes[int(v.image_height), int(v.image_width)]) for v in self.views]
        self._eyes = self.place.eyes([watched(camera) for camera in self.cameras])

    def _photo(self, view: int) -> torch.Tensor:
        photo = super()._photo(view)
        if self.scale <= 1:
            return photo
        return functional.interpolate(
            photo[None], scale_factor=1 / self.scale, mode="bilinear", recompute_scale_factor=True, antialias=True
        )[0]

    def _render(self, view: Any, model: Any) -> dict[str, Any]:
        number = self._numbers.get(id(view))
        size = None if number is None else (self.cameras[number].height, self.cameras[number].width)
        render = self.fork.module("gaussian_renderer").render
        package: dict[str, Any] = render(
            view, model, self.pipe, self.background, separate_sh=self.separate_sh, render_size=size
        )
        return package

    def _densify(self, step: int, shared: torch.Tensor | None) -> None:
        now, options = self.iteration(step), self.options
        rate = self.scheduler.get_densify_rate(now, len(self.table), self.scale)
        grown = self.gaussians.prune_and_densify(
            options.densify_grad_threshold,
            MIN_OPACITY,
            self.extent,
            self._largest(step),
            self._radii(),
            densify_rate=rate,
        )
        self.scheduler.update_momentum(int(grown))
        scale = 1.0 if step == self._last else float(self.scheduler.get_res_scale(now))
        if scale != self.scale:
            self._resize(scale)

    def _state(self) -> dict[str, float]:
        s = self.scheduler
        return {"scale": self.scale, "momentum": float(s.momentum), "most": float(s.max_n_gaussian), "next": s.next_i}

    def _restore_state(self, state: dict[str, float]) -> None:
        if "scale" in state:
            s = self.scheduler
            s.momentum, s.max_n_gaussian, s.next_i = int(state["momentum"]), int(state["most"]), int(state["next"])
            self._resize(state["scale"])
