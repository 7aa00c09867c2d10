"""The adapter for TamingGS (humansensinglab/taming-3dgs).

f_rest moves every 16th step by the sum of its gradients (`odin.held`), which is upstream's accumulation in `.grad`;
what has been summed is lost where rows change, as upstream. Scores of views are shared between ranks and summed.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from odin.recipe import Event
from odin.table import ParameterTable
from pipelines.adapters.recipe import ForkSplatting, photometric
from pipelines.adapters.threedgs import MIN_OPACITY
from pipelines.capture import Capture
from pipelines.reference.schedule import StructuralSchedule
from pipelines.reference.taminggs import HELD_LAYOUT, TamingSettings, taming_schedule

# The weights that upstream's command line gives its scores.
COEFFICIENTS = {
    "view_importance": 50,
    "edge_importance": 50,
    "mse_importance": 50,
    "grad_importance": 25,
    "dist_importance": 50,
    "opac_importance": 100,
    "dept_importance": 5,
    "loss_importance": 10,
    "radii_importance": 10,
    "scale_importance": 25,
    "count_importance": 0.1,
    "blend_importance": 50,
}


class EmptyDraws(TorchFunctionMode):
    """torch.multinomial of no samples is nothing, instead of an error: the first densification of a small scene may
    have a budget of none for clones or for splits."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call `func` unless it is such a draw."""
        named = kwargs or {}
        samples = args[1] if len(args) > 1 else named.get("num_samples")
        if func is torch.multinomial and samples == 0:
            return torch.empty(0, dtype=torch.int64, device=args[0].device)
        return func(*args, **named)


class ForkedTaming(ForkSplatting):
    """TamingGS: densification to a budget by scores of sampled views."""

    settings: TamingSettings

    def _make_schedule(self, steps: int, batch: int) -> StructuralSchedule:
        return taming_schedule(self.settings, steps, batch)

    def _make_table(self, parameters: torch.Tensor) -> ParameterTable:
        every = self.settings.f_rest_every
        if self.settings.optimizer == "selective" or every == 1:
            return super()._make_table(parameters)
        table = self.place.table(parameters, HELD_LAYOUT, selective=False, hold=every)
        self.layout = HELD_LAYOUT
        return table

    def _set_up(self, capture: Capture) -> None:
        self.frozen = False
        taming = self.fork.module("utils.taming_utils")
        self._edges = []
        with self.fork.device():
            for view in self.scene.getTrainCameras():
                found = taming.get_edges(view.original_image).squeeze()
                self._edges.append((found - found.min()) / (found.max() - found.min()))
        mode, budget = self.settings.budget_mode, self.settings.primitive_budget
        self._counts = taming.get_count_array(len(self.table), budget, self.options, mode=mode)

    def _render(self, view: Any, model: Any) -> dict[str, Any]:
        package: dict[str, Any] = self.fork.module("gaussian_renderer").render(view, model, self.pipe, self.background)
        return package

    def _loss(self, package: Mapping[str, Any], photo: torch.Tensor, step: int) -> torch.Tensor:
        image = package["render"]
        ssim = importlib.import_module("fused_ssim").fused_ssim(image[None], photo[None])
        return photometric(self.fork, image, photo, self.options.lambda_dssim, ssim)

    def learning_rates(self, step: int) -> Any:
        """As the fork's groups have it; opacities have none once they are frozen."""
        lr = super().learning_rates(step)
        if self.frozen:
            lr[self.kinds["opacity"]] = 0.0
        return lr

    def _densify(self, step: int, shared: torch.Tensor | None) -> None:
        due, scores = self._due(step), shared
        budget = max(int(self._counts[due]), len(self.table))
        try:
            with EmptyDraws():
                self.gaussians.densify_with_score(
                    scores=scores,
                    max_screen_size=self._largest(step),
                    min_opacity=MIN_OPACITY,
                    extent=self.extent,
                    budget=budget,
                    radii=self._radii(),
                    iter_num=due - 1,
                )
        except ZeroDivisionError:
            return  # no row is hot enough to be cloned or split; upstream's own loop ends here

    def _due(self, step: int) -> int:
        """Which entry of the fork's curve of budgets a densification has: the one that its image count would have."""
        options = self.options
        due = round((self.iteration(step) - options.densify_from_iter) / options.densification_interval)
        return min(max(due, 1), len(self._counts) - 1)

    def _share(self, rank: int, ranks: int) -> torch.Tensor:
        """Sum of the scores of this rank's share of the sampled views, float32 [N]."""
        cameras = self.scene.getTrainCameras()  # in the fork's order, which its draws are positions in
        left, sampled = list(range(len(cameras))), []
        for _ in range(min(self.settings.score_views or len(left), len(left))):
            sampled.append(left.pop(random.randint(0, len(left) - 1)))
        own = sampled[rank::ranks]
        if not own:
            return torch.zeros(len(self.table), device=self.place.device)
        scores: torch.Tensor = self.fork.module("utils.taming_utils").compute_gaussian_score(
            self.scene,
            [cameras[view] for view in own],
            [self._edges[view] for view in own],
            self.gaussians,
            self.pipe,
            self.background,
            COEFFICIENTS,
            self.options,
        )
        return scores.contiguous()

    def _event(self, step: int, events: Event) -> None:
        super()._event(step, events)
        # Upstream puts activated opacities into the parameter here. The learning rate 0 alone keeps the same values,
        # and what the table, checkpoints and model files hold stays a logit.
        self.frozen = self.frozen or Event.FREEZE in events

    def _state(self) -> dict[str, float]:
        return {"frozen": float(self.frozen)}

    def _restore_state(self, state: dict[str, float]) -> None:
        self.frozen = bool(state.get("frozen", 0.0))
