"""The adapter for Grendel (nyu-systems/Grendel-GS): primitives sharded by owner, under OUR mixed-parallel runtime.

Grendel's rasterizer is called in two parts, and the graph is cut between them: where its own loop exchanges projected
rows inside autograd, `odin.mixed` exchanges them outside, so that gradients return while the next step renders, on
groups of their own. The fork's one process group is never made; it believes to be alone. Its timers, its
synchronisations and its division of images by measured times belong to its loop, and are in no arm.

Rows of all owners have one order: owner by owner, as each has them.

Legend: n rows of a shard, m rows of a view at its owner, M at the rank that renders it.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from odin.errors import InputError
from odin.keeper import Keeper
from odin.memory import Holding, MemoryCategory
from odin.mixed.balance import Balance
from odin.mixed.bands import Band
from odin.mixed.owners import Owners
from odin.mixed.recipe import Drawn
from odin.phases import Phase
from odin.recipe import Event
from odin.table import ParameterTable
from pipelines.adapters.recipe import ForkSplatting
from pipelines.adapters.structure import taken_out
from pipelines.camera import Camera
from pipelines.capture import Capture
from pipelines.place import HOST
from pipelines.reference.grendel import GrendelSettings, GrendelSplatting
from pipelines.reference.settings import Settings

# What travels of a projected row: means, conic and opacity, colour, depth, radius. Its gradient: the first nine.
MEANS, CONIC_OPACITY, RGB, DEPTH, RADIUS = slice(0, 2), slice(2, 6), slice(6, 9), 9, 10
PROJECTED, GRADIENT = 11, 9
GROUPS = ("AuxiliaryParams", "DistributionParams", "BenchmarkParams", "DebugParams")


@dataclass(kw_only=True)
class ForkObserved:
    """A view as an owner has projected it with the fork; what its backward needs is in the graph behind `outputs`.

    rows:    int32 [m], the rows that are sent; kept: int64 [m], where they stand among the projected ones
    outputs: means, conic and opacity, colour of all projected rows
    """

    view: int
    rows: NDArray[np.int32]
    kept: torch.Tensor
    leaves: dict[str, torch.nn.Parameter]
    outputs: list[torch.Tensor]
    model: Any
    projected: torch.Tensor
    gradient: torch.Tensor | None = None

    def holdings(self) -> Iterator[Holding]:
        """The values that were projected (`odin.memory`)."""
        for tensor in (*self.leaves.values(), self.projected):
            yield MemoryCategory.OTHER, tensor.detach()


class ForkedGrendel(GrendelSplatting, ForkSplatting):
    """Grendel on whole views: each rank renders those of its unit."""

    settings: GrendelSettings
    projected_columns, gradient_columns = PROJECTED, GRADIENT

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.owner = 0
        if self.place is not HOST:
            raise InputError("pipeline=grendel source=fork runs on device=cpu only so far.")
        if self.balance is not Balance.VIEWS:
            raise InputError("pipeline=grendel source=fork renders whole views; leave pipeline.balance at views.")

    # The fork's objects -----------------------------------------------------------------------------------------

    def _words(self, settings: Settings) -> list[str]:
        assert isinstance(settings, GrendelSettings)
        scale = "sqrt" if settings.lr_scale == "sqrt" else "accumu"
        words = ["--lambda_dssim", str(settings.lambda_dssim), "--bsz", str(self._batch), "--lr_scale_mode", scale]
        return ["--backend", "default", *words]

    def _parse(self, words: Sequence[str]) -> None:
        shared = prepared(self.fork)
        self.model_options, self.options, self.pipe, every = self.fork.options(words, GROUPS)
        every.multiprocesses_image_loading = False  # its worker processes would each be one more of this program
        self.fork.module("arguments").init_args(every)
        shared.set_cur_iter(1)
        # Scene and model ask for options of all groups.
        self.model_options = every

    def _make_model(self) -> Any:
        return self.fork.module("scene").GaussianModel(3)

    def _views(self, capture: Capture) -> tuple[list[Camera], Sequence[Any]]:
        cameras, photos = super()._views(capture)
        if len({(camera.width, camera.height) for camera in cameras}) > 1:
            raise InputError("Grendel trains on images of one size; this capture has several. Resize its images.")
        return cameras, photos

    def _make_table(self, parameters: torch.Tensor) -> ParameterTable:
        """The fork scales its optimizer to the batch by itself."""
        return ForkSplatting._make_table(self, parameters)

    def learning_rates(self, step: int) -> NDArray[np.float64]:
        """Of the fork's own groups, which are scaled to the batch already."""
        return ForkSplatting.learning_rates(self, step)

    def _rasterizer(self, view: Any) -> Any:
        """The fork's rasterizer for a camera, with settings as its renderer makes them."""
        extension = sys.modules["diff_gaussian_rasterization"]
        settings = extension.GaussianRasterizationSettings(
            image_height=int(view.image_height),
            image_width=int(view.image_width),
            tanfovx=float(np.tan(view.FoVx / 2.0)),
            tanfovy=float(np.tan(view.FoVy / 2.0)),
            bg=self.background,
            scale_modifier=1.0,
            viewmatrix=view.world_view_transform,
            projmatrix=view.full_proj_transform,
            sh_degree=self.degree,
            campos=view.camera_center,
            prefiltered=False,
            debug=False,
        )
        return extension.GaussianRasterizer(raster_settings=settings)

    def _kernel_words(self) -> dict[str, Any]:
        """What the fork's kernels are told beside their tensors: this process is alone."""
        alone = SimpleNamespace(world_size=1, rank=0)
        words: dict[str, Any] = self.fork.module("gaussian_renderer").get_cuda_args_final(alone, mode="train")
        return words

    def _preprocessed(self, view: Any, model: Any) -> tuple[torch.Tensor, ...]:
        seen: tuple[torch.Tensor, ...] = self._rasterizer(view).preprocess_gaussians(
            means3D=model.get_xyz,
            scales=model.get_scaling,
            rotations=model.get_rotation,
            shs=model.get_features,
            opacities=model.get_opacity,
            cuda_args=self._kernel_words(),
        )
        return seen

    def _pixels(self, view: Any, projected: Sequence[torch.Tensor]) -> torch.Tensor:
        means, conic_opacity, rgb, depths, radii = projected
        tiles = (-(-int(view.image_height) // 16), -(-int(view.image_width) // 16))
        image: torch.Tensor = self._rasterizer(view).render_gaussians(
            means2D=means,
            conic_opacity=conic_opacity,
            rgb=rgb,
            depths=depths,
            radii=radii,
            compute_locally=torch.ones(tiles, dtype=torch.bool),
            extended_compute_locally=None,
            cuda_args=self._kernel_words(),
        )[0]
        return image

    def _render(self, view: Any, model: Any) -> dict[str, Any]:
        """Both parts, for evaluation."""
        means, rgb, conic_opacity, radii, depths = self._preprocessed(view, model)
        return {"render": self._pixels(view, (means, conic_opacity, rgb, depths, radii)), "radii": radii}

    def _photo(self, view: int) -> torch.Tensor:
        photo: torch.Tensor = torch.clamp(self.views[view].original_image_backup.cuda() / 255.0, 0.0, 1.0)
        return photo

    def _loss(self, package: Mapping[str, Any], photo: torch.Tensor, step: int) -> torch.Tensor:
        losses, image = self.fork.module("utils.loss_utils"), package["render"]
        whole = torch.ones(image.shape[1:], dtype=torch.bool, device=image.device)
        error = losses.pixelwise_l1_with_mask(image, photo, whole).sum() / image.numel()
        ssim = losses.pixelwise_ssim_with_mask(image, photo, whole).sum() / image.numel()
        weight = self.settings.lambda_dssim
        return (1.0 - weight) * error + weight * (1.0 - ssim)

    # Owners -----------------------------------------------------------------------------------------------------

    def shard(self, rank: int, ranks: int) -> None:
        """See GrendelSplatting."""
        super().shard(rank, ranks)
        self.owner = rank

    def observe(  # type: ignore[override]
        self,
        views: Sequence[int],
        rows: Sequence[NDArray[np.int32]],
        values: Sequence[torch.Tensor] | None,
        keeper: Keeper,
        *,
        drawn_only: bool,
    ) -> list[ForkObserved]:
        """See MixedRecipe."""
        table = self.table.parameters
        sources = [table[torch.from_numpy(ids)] for ids in rows] if values is None else [own.clone() for own in values]
        with keeper.phase(Phase.PROJECT, rows=sum(map(len, rows))), self.fork.device(), torch.enable_grad():
            made = []
            for view, source in zip(views, sources, strict=True):
                model, leaves = self._shadow(source)
                made.append((model, leaves, self._preprocessed(self.views[view], model)))
        return [self._as_sent(*one, drawn_only) for one in zip(views, rows, made, strict=True)]

    def _as_sent(self, view: int, rows: NDArray[np.int32], made: tuple[Any, ...], drawn_only: bool) -> ForkObserved:
        model, leaves, (means, rgb, conic_opacity, radii, depths) = made
        drawn = radii > 0 if drawn_only else torch.ones(len(rows), dtype=torch.bool)
        kept = torch.nonzero(drawn)[:, 0]
        columns = [means, conic_opacity, rgb, depths[:, None], radii[:, None].float()]
        return ForkObserved(
            view=view,
            rows=rows[kept.numpy()],
            kept=kept,
            leaves=leaves,
            outputs=[means, conic_opacity, rgb],
            model=model,
            projected=torch.cat(columns, dim=1).detach()[kept],
        )

    def return_colours(self, frame: Any, gradient: torch.Tensor) -> NDArray[np.float32]:
        """See MixedRecipe; the geometry's gradient is computed with it."""
        back = [torch.zeros_like(output) for output in frame.outputs]
        for full, columns in zip(back, (MEANS, CONIC_OPACITY, RGB), strict=True):
            full[frame.kept] = gradient[:, columns]
        given = torch.autograd.grad(frame.outputs, list(frame.leaves.values()), back)
        found = self.tensors.table(dict(zip(frame.leaves, given, strict=True)))
        frame.gradient = found[frame.kept]
        return self.backward_colours(frame)

    def return_geometry(self, frame: Any, gradient: torch.Tensor) -> NDArray[np.float32]:
        """See MixedRecipe."""
        return self.backward_geometry(frame)

    def note(self, observed: Any, gradient: torch.Tensor) -> None:
        """See MixedRecipe; by the fork's own norm of screen positions."""
        visible = observed.projected[:, RADIUS] > 0
        points = SimpleNamespace(grad=gradient[:, MEANS])
        self._observe(observed, {"viewspace_points": points, "visibility_filter": visible})

    def needed(self, observed: Any, band: Band) -> NDArray[np.int64]:
        """See MixedRecipe; views are rendered whole."""
        return np.arange(len(observed.rows), dtype=np.int64)

    # The rank that renders ----------------------------------------------------------------------------------------

    def draw(self, view: int, projected: torch.Tensor, keeper: Keeper, band: Band | None = None) -> Drawn:
        """See MixedRecipe."""
        assert band is None
        camera, rows = self.cameras[view], len(projected)
        pixels = camera.width * camera.height
        leaves = [projected[:, columns].clone().requires_grad_() for columns in (MEANS, CONIC_OPACITY, RGB)]
        behind = projected[:, DEPTH].contiguous(), projected[:, RADIUS].to(torch.int32)
        with self.fork.device(), torch.enable_grad():
            with keeper.phase(Phase.BLEND, rows=rows, pixels=pixels):
                image = self._pixels(self.views[view], (*leaves, *behind))
            with keeper.phase(Phase.LOSS, pixels=pixels):
                loss = self._loss({"render": image}, self._photo(view), keeper.step)
            with keeper.phase(Phase.BLEND_BACKWARD, rows=rows, pixels=pixels):
                gradient = torch.cat(torch.autograd.grad(loss, leaves), dim=1)
        shown = image.detach().permute(1, 2, 0).contiguous()
        return Drawn(loss=self.place.scalar(loss.detach()), gradient=gradient, image=shown)

    # Structure ----------------------------------------------------------------------------------------------------

    def _densify(self, step: int, shared: torch.Tensor | None) -> None:
        options = self.options
        self.gaussians.densify_and_prune(
            options.densify_grad_threshold, options.min_opacity, self.extent, self._largest(step)
        )

    def _enter(self) -> None:
        super()._enter()
        self.gaussians.send_to_gpui_cnt = torch.zeros((len(self.table), 1), dtype=torch.int)

    def restructure_shard(self, step: int, events: Event, version: int, owners: Owners, keeper: Keeper) -> None:
        """The fork's own structural methods on this owner's shard; then rows are dealt out anew where owners have
        become unbalanced, in place of its random redistribution. Owners draw from (seed, version, owner)."""
        if Event.DENSIFY in events:
            with keeper.phase(Phase.DENSIFY, rows=len(self.table)), self._at_event(version, self.owner):
                self._enter()
                self._densify(step, None)
                rows = torch.cat(taken_out(self.gaussians, self.tensors), dim=1)
            counts = owners.counts(len(rows))
            self._deal(step, rows, np.arange(int(counts.sum())), counts, owners, keeper)
        if events == Event.DENSIFY:
            return
        with keeper.phase(Phase.EVENT, rows=len(self.table)), self._at_event(version, self.owner):
            self._enter()
            ForkSplatting._event(self, step, events)
            self._leave(None)


def prepared(fork: Any) -> Any:
    """Grendel's process-wide state, as it is in a single process; its module."""
    shared = fork.module("utils.general_utils")
    alone = shared.SingleGPUGroup()
    shared.GLOBAL_RANK, shared.LOCAL_RANK, shared.WORLD_SIZE = 0, 0, 1
    shared.DEFAULT_GROUP = shared.IN_NODE_GROUP = alone
    shared.set_log_file(io.StringIO())
    return shared
