"""A fork as a recipe: OUR loop over ITS model, cameras, renderer, losses and schedules, wrapped from outside.

The table holds what the fork's GaussianModel holds. A view is rendered by the fork's own `render` from a shallow copy
of the model that has the view's rows and nothing else. Structural events are the fork's own methods on its own
optimizer, into which the table's moments are laid and from which they are taken back. Nothing is divided before it is
reduced: losses are summed over views, statistics are the fork's own screen-space norms (D§5).

What the wrapping cannot give: a fork renders in one call, so there are no column groups to wait for apart.

Legend: N rows of the table, M rows of one view, D columns.
"""

from __future__ import annotations

import contextlib
import copy
import sys
import tempfile
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from odin.arriving import Scalar, Scopes
from odin.errors import InputError, RunError
from odin.inflation import Inflation
from odin.keeper import Keeper
from odin.phases import Phase
from odin.recipe import Event, Reduce
from odin.rows import AdamConstants
from pipelines.adapters.cameras import camera_for, our_camera, reach, watched
from pipelines.adapters.draws import drawn_from
from pipelines.adapters.frame import ForkFrame
from pipelines.adapters.mapping import GAUSSIANS, TensorMapping
from pipelines.adapters.modules import Fork
from pipelines.adapters.staging import staged, view_number
from pipelines.adapters.structure import Followed, groups_of, laid_in, taken_out
from pipelines.backend import NoRenderer
from pipelines.camera import Camera
from pipelines.capture import Capture
from pipelines.place import HOST, Place, Rows
from pipelines.reference.settings import REFERENCE_BUDGET, Settings
from pipelines.reference.statistics import LARGEST, ONE
from pipelines.reference.threedgs import GaussianSplatting

# Positions are rounded otherwise in a fork's kernel than in our scopes: a share of the scene's extent.
ROUNDING = 1e-6


class ForkSplatting(GaussianSplatting):
    """What all forks of 3DGS share; subclasses say what theirs does otherwise.

    options:   command line of the fork beside what every run has
    gaussians: the fork's model. Its tensors are current only inside structural events; its schedules always are
    scene:     the fork's scene
    """

    tensors: ClassVar[TensorMapping] = GAUSSIANS
    kinds: Mapping[str, slice] = MappingProxyType(GAUSSIANS.by_name)

    def __init__(
        self, fork: Fork, capture: Capture, settings: Settings, *, steps: int, batch: int, place: Place = HOST
    ) -> None:
        self.fork, self.layout = fork, self.tensors.layout
        self._batch = batch
        if settings.optimizer not in fork.pin.optimizers:
            raise InputError(
                f"The fork {fork.pin.name} trains with {' or '.join(fork.pin.optimizers)} Adam at its pin; leave "
                f"pipeline.optimizer={settings.optimizer} out."
            )
        self._open_scene(staged(capture, settings), settings)
        super().__init__(capture, settings, NoRenderer(), steps=steps, batch=batch, place=place)  # type: ignore[arg-type]
        self._eyes = self.place.eyes([self._watching(camera) for camera in self.cameras])
        self.extent = float(self.scene.cameras_extent)
        self._set_up(capture)

    # The fork's objects -----------------------------------------------------------------------------------------

    def _open_scene(self, source: Path, settings: Settings) -> None:
        """The fork's model, scene and optimizer, as its own training makes them, under the run's seed."""
        fork = self.fork
        with tempfile.TemporaryDirectory(prefix="odin-fork-") as own, drawn_from(settings.seed, 0), fork.device():
            words = ["-s", str(source), "-m", own, "-i", "images", *self._words(settings)]
            with contextlib.redirect_stdout(sys.stderr):
                self._parse(words)
                self._adjust(settings)
                self.gaussians = self._make_model()
                self.scene = fork.module("scene").Scene(self.model_options, self.gaussians)
                self.gaussians.training_setup(self.options)
        found = {view_number(camera.image_name): camera for camera in self.scene.getTrainCameras()}
        self.views = [found[view] for view in sorted(found)]

    def _words(self, settings: Settings) -> list[str]:
        """The fork's command line, without its folders."""
        words = ["-r", "1", "--iterations", str(REFERENCE_BUDGET), "--lambda_dssim", str(settings.lambda_dssim)]
        words += ["--data_device", "cpu"] if self.fork.stand_ins else []
        return words + (["--optimizer_type", "sparse_adam"] if settings.optimizer == "selective" else [])

    def _parse(self, words: Sequence[str]) -> None:
        self.model_options, self.options, self.pipe, _ = self.fork.options(words)

    def _adjust(self, settings: Settings) -> None:
        """Options that no word sets. Schedules are ours, from the settings, so that arms and floors hold (D§5)."""
        for name, value in (
            ("densify_from_iter", settings.densify_from),
            ("densify_until_iter", settings.densify_until),
            ("densification_interval", settings.densification_interval),
            ("opacity_reset_interval", settings.opacity_reset_interval),
        ):
            setattr(self.options, name, value)

    def _make_model(self) -> Any:
        return self.fork.module("scene").GaussianModel(3, self.options.optimizer_type)

    def _set_up(self, capture: Capture) -> None:
        """After the table is there."""

    # What the base asks for -------------------------------------------------------------------------------------

    def _views(self, capture: Capture) -> tuple[list[Camera], Sequence[Any]]:
        """The fork's cameras in our form. Photos stay with the fork's cameras."""
        if len(self.views) != len(capture.train):
            raise RunError(f"The fork read {len(self.views)} of {len(capture.train)} training views.")
        return [our_camera(view) for view in self.views], []

    def _ordered(self, parameters: torch.Tensor) -> torch.Tensor:
        """The fork's own order: its structural code draws noise row by row."""
        return parameters

    def _initial(self, capture: Capture) -> torch.Tensor:
        tensors = {kind.attribute: getattr(self.gaussians, kind.attribute) for kind in self.tensors.kinds}
        return self.tensors.table(tensors).detach().cpu()

    def _make_table(self, parameters: torch.Tensor) -> Any:
        table = super()._make_table(parameters)
        group = self.gaussians.optimizer.param_groups[0]
        (beta1, beta2), eps = group["betas"], group["eps"]
        table.adam = AdamConstants(beta1=float(beta1), beta2=float(beta2), eps=float(eps))
        return table

    def replica(self) -> Self:
        """See GaussianSplatting; the fork's schedules have a state, so replicas have their own."""
        other = super().replica()
        other.gaussians = copy.copy(self.gaussians)
        return other

    # Scopes -------------------------------------------------------------------------------------------------

    def scope(self, views: Sequence[int], inflation: Inflation) -> Scopes:
        """See GaussianSplatting. Widened from our renderer's boxes to the forks' kernels, which take 3σ of the longer
        axis in both directions, whatever the opacity: also rows without a gradient count as seen there."""
        shift = inflation.shift + ROUNDING * self.extent
        wide = Inflation(level=inflation.level, shift=shift, growth=inflation.growth + reach(self.cameras))
        return super().scope(views, wide)

    def _watching(self, camera: Camera) -> Camera:
        """The camera whose scope is taken."""
        return watched(camera)

    # One view -----------------------------------------------------------------------------------------------

    def project(self, view: int, rows: NDArray[np.int32], keeper: Keeper) -> Any:
        """Take the view's rows out of the table: all that the fork's renderer will read of it."""
        with keeper.phase(Phase.PROJECT, rows=len(rows)):
            ids = self.place.rows(rows)
            model, leaves = self._shadow(self.table.parameters[self.place.index(ids)])
        return ForkFrame(view=view, place=self.place, rows=ids, model=model, leaves=leaves)

    def _shadow(self, rows: torch.Tensor) -> tuple[Any, dict[str, torch.nn.Parameter]]:
        """A shallow copy of the fork's model on `rows` [M, D], and its parameters."""
        model, leaves = copy.copy(self.gaussians), self.tensors.leaves(rows)
        vars(model).update(leaves)
        return model, leaves

    def render(self, frame: Any, keeper: Keeper) -> Scalar:
        """The fork's forward pass, its loss, and its backward pass to the parameters of the view's rows."""
        camera = self.cameras[frame.view]
        pixels = camera.width * camera.height
        with self.fork.device():
            with keeper.phase(Phase.BLEND, rows=len(frame.rows), pixels=pixels):
                package = self._render(self.views[frame.view], frame.model)
                frame.image, frame.radii = package["render"].detach(), package["radii"]
            with keeper.phase(Phase.LOSS, pixels=pixels):
                loss = self._loss(package, self._photo(frame.view), keeper.step)
            with keeper.phase(Phase.BLEND_BACKWARD, rows=len(frame.rows), pixels=pixels):
                loss.backward()
                frame.gradient = self._gradient(frame)
                if self._observing:
                    self._observe(frame, package)
        frame.leaves.clear()
        return self.place.scalar(loss.detach())

    @abstractmethod
    def _render(self, view: Any, model: Any) -> dict[str, Any]:
        """The fork's render of a camera of its own."""

    @abstractmethod
    def _loss(self, package: Mapping[str, Any], photo: torch.Tensor, step: int) -> torch.Tensor:
        """The fork's loss of a rendered view."""

    def _photo(self, view: int) -> torch.Tensor:
        """What a view is compared with, float32 [3, H, W]."""
        photo: torch.Tensor = self.views[view].original_image.cuda()
        return photo

    def _gradient(self, frame: ForkFrame) -> torch.Tensor:
        """Gradient of the rows, [M, D]; none where the fork's renderer stopped it."""
        given = {
            name: torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for name, leaf in frame.leaves.items()
        }
        return self.tensors.table(given)

    def _observe(self, frame: ForkFrame, package: Mapping[str, Any]) -> None:
        """Densification statistics: the fork's own norms of a view, in the fixed point that ranks sum (D§5)."""
        model, device = frame.model, self.place.device
        model.xyz_gradient_accum = torch.zeros((len(frame.rows), 1), device=device)
        model.denom = torch.zeros((len(frame.rows), 1), device=device)
        model.add_densification_stats(package["viewspace_points"], package["visibility_filter"])
        norms = torch.round(model.xyz_gradient_accum[:, 0].double().clamp(max=LARGEST) * ONE).to(torch.int64)
        both = torch.stack([norms, model.denom[:, 0].to(torch.int64)], dim=1)
        self.statistics.local.index_add_(0, self.place.index(frame.rows).long(), both)

    def backward_colours(self, frame: Any) -> Rows:
        """Gradient of the colour columns, float32 [M, 48]; computed with the others."""
        return self.place.array(frame.gradient[:, self._split :].contiguous())

    def backward_geometry(self, frame: Any) -> Rows:
        """Gradient of the geometry columns, float32 [M, 11] (10 of surfels)."""
        return self.place.array(frame.gradient[:, : self._split].contiguous())

    @property
    def _split(self) -> int:
        return self.layout.groups[0].last

    def image(self, camera: Camera) -> NDArray[np.float32]:
        """Render any camera with the fork, float32 [height, width, 3]. Forks put the principal point into the middle of
        every image."""
        with torch.no_grad(), self.fork.device():
            model, _ = self._shadow(self.table.parameters)
            view = camera_for(self.fork, camera, self.place.device)
            image = self._render(view, model)["render"].clamp(0.0, 1.0)
            shown: NDArray[np.float32] = image.permute(1, 2, 0).contiguous().cpu().numpy()
        return shown

    # Optimizer and structure ----------------------------------------------------------------------------------

    def iteration(self, step: int) -> float:
        """Images after a step on the scale of a whole training, which is what a fork's schedules count from 1."""
        return (step + 1) * self._batch * REFERENCE_BUDGET / self._budget

    def learning_rates(self, step: int) -> NDArray[np.float64]:
        """Of the fork's own parameter groups and its schedule of positions, for each column."""
        lr, groups = np.zeros(self.layout.columns), self._rates()
        for kind in self.tensors.kinds:
            lr[kind.columns] = groups[kind.group]
        lr[self.kinds["xyz"]] = float(self.gaussians.xyz_scheduler_args(self.iteration(step)))
        if Event.RESET in self.events_after(step):
            # Upstream resets before it steps, and the step then finds no gradient of the opacities.
            lr[self.kinds["opacity"]] = 0.0
        return lr

    def _rates(self) -> dict[str, float]:
        return {group["name"]: float(group["lr"]) for _, group in groups_of(self.gaussians)}

    def displacement(self, step: int, bound: float) -> tuple[float, float]:
        """See GaussianSplatting."""
        lr = self.learning_rates(step)
        return float(np.sqrt(3.0) * lr[self.kinds["xyz"]].max() * bound), float(lr[self.kinds["scale"]].max() * bound)

    def restructure(self, step: int, events: Event, version: int, reduce: Reduce, keeper: Keeper) -> None:
        """The fork's own structural methods, in its order, on its own optimizer; draws keyed by (seed, version)."""
        densifies = Event.DENSIFY in events
        if densifies:
            reduce(self.statistics.local)
        share = None
        phase = Phase.DENSIFY if densifies else Phase.EVENT
        with keeper.phase(phase, rows=len(self.table)), self._at_event(version):
            self._enter()
            share = self._share(reduce.rank, reduce.ranks) if densifies else None
        if share is not None:
            reduce(share)
        with keeper.phase(phase, rows=len(self.table)):
            with self._at_event(version), Followed(self.gaussians, len(self.table)) as followed:
                if densifies:
                    self._densify(step, share)
                self._event(step, events)
            self._leave(followed.source if densifies else None)

    @contextlib.contextmanager
    def _at_event(self, version: int, owner: int = 0) -> Iterator[None]:
        """The fork's structural code: on its device, without autograd, drawing from (seed, version), quietly."""
        quiet = contextlib.redirect_stdout(sys.stderr)
        with drawn_from(self.settings.seed, version, owner), self.fork.device(), torch.no_grad(), quiet:
            yield

    def _share(self, rank: int, ranks: int) -> torch.Tensor | None:
        """This rank's part of a sum that a densification needs beside the statistics, or None."""
        return None

    def _enter(self) -> None:
        """Lay parameters, moments and statistics into the fork's model."""
        laid_in(self.gaussians, self.tensors, self.table)
        rows, device, sums = len(self.table), self.place.device, self.statistics.local
        self.gaussians.xyz_gradient_accum = (sums[:, :1].double() / ONE).float()
        self.gaussians.denom = sums[:, 1:].float()
        # The forks zero it before they look at it, so it is not reduced over ranks.
        self.gaussians.max_radii2D = torch.zeros(rows, device=device)

    def _leave(self, source: NDArray[np.int64] | None) -> None:
        """Take them out again; `source`: the old row of each, where rows have changed."""
        parameters, m, v = taken_out(self.gaussians, self.tensors)
        if not len(parameters):
            raise RunError(
                f"The fork {self.fork.pin.name} pruned all {len(self.table)} primitives: every opacity was below its "
                "threshold. Densification came too soon after an opacity reset; leave more steps between reset_at and "
                "the next of densify_at, or raise densification_floor_steps."
            )
        if source is None:
            self.table.parameters.copy_(parameters)
            self.table.m.copy_(m)
            self.table.v.copy_(v)
            return
        self.table.replace(parameters, m, v, source)
        self.statistics = self.place.statistics(len(self.table))

    @abstractmethod
    def _densify(self, step: int, shared: torch.Tensor | None) -> None:
        """The fork's densification of `self.gaussians`; statistics, and what ranks share, are those of all ranks."""

    def _event(self, step: int, events: Event) -> None:
        if Event.RESET in events:
            self.gaussians.reset_opacity()
            self.resets += 1
        if Event.SH_UP in events and self.degree < self.settings.sh_degree:
            self.gaussians.oneupSHdegree()
            self.degree = int(self.gaussians.active_sh_degree)

    def _largest(self, step: int) -> int | None:
        """Upstream's screen-size threshold of pruning: off until opacities would first have been reset."""
        return 20 if self.iteration(step) > self.options.opacity_reset_interval else None

    def _radii(self) -> torch.Tensor:
        """What forks call radii in densification: never read by them."""
        return torch.zeros(len(self.table), dtype=torch.int32, device=self.place.device)

    # State ----------------------------------------------------------------------------------------------------

    def restore(self, checkpoint: Any, *, first_rank: bool) -> None:
        """See GaussianSplatting."""
        super().restore(checkpoint, first_rank=first_rank)
        self.gaussians.active_sh_degree = self.degree


def photometric(fork: Fork, image: torch.Tensor, photo: torch.Tensor, weight: float, ssim: Any) -> torch.Tensor:
    """The lineage's loss from the fork's own L1 and an SSIM: L1 and 1 - SSIM, the latter with `weight`."""
    mean_error = fork.module("utils.loss_utils").l1_loss(image, photo)
    value: torch.Tensor = (1.0 - weight) * mean_error + weight * (1.0 - ssim)
    return value
