"""A 3DGS recipe whose gradients do their worst to scopes.

Nothing is rendered: scopes depend on where rows are, and how far rows move depends on their moments alone. So
gradients may be anything, and here they are what moves a row furthest, while all else is the real thing: table,
learning rates, structural events, row kernel, publication, inflation.

Legend: N rows, M rows of a view, V views, D columns.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from odin.bound import BETA1, BETA2
from odin.keeper import Keeper
from odin.recipe import Event
from odin.tracks import Tracks
from pipelines.camera import Camera
from pipelines.capture import Capture
from pipelines.columns import COLOUR, GEOMETRY, OPACITY, SCALE, XYZ
from pipelines.reference.settings import Settings
from pipelines.reference.threedgs import GaussianFrame, GaussianSplatting
from tests.render.scenes import make_camera

VIEWS = 12
POINTS = 500
WORST, RANDOM, SILENT = 0, 1, 2  # what the gradients of a row are
_LARGEST = 1e18  # its square is still a float32

Doubles = NDArray[np.float64]
Ids = NDArray[np.int32]


def cameras() -> tuple[Camera, ...]:
    """Inside the cloud, where rows graze the near plane, and outside it; a long lens, ordinary and very wide ones."""
    return tuple(
        make_camera(64, 48, fov=(60.0, 110.0, 20.0, 150.0)[k % 4], seed=k, near_origin=k % 3 != 2) for k in range(VIEWS)
    )


def capture(seed: int) -> Capture:
    """Points around the cameras. Photos are black: nobody looks at them."""
    rng = np.random.default_rng(seed)
    return Capture(
        name="adversary",
        cameras=cameras(),
        images=tuple(np.zeros((48, 64, 3), np.uint8) for _ in range(VIEWS)),
        train=np.arange(VIEWS, dtype=np.int32),
        test=np.empty(0, np.int32),
        points=rng.normal(size=(POINTS, 3)) * 2.0,
        colours=rng.integers(0, 256, (POINTS, 3)).astype(np.uint8),
        tracks=Tracks.empty(VIEWS),
        manifest=f"adversary-{seed}",
    )


def faster(factor: float, **more: object) -> Settings:
    """Upstream's settings with every learning rate of the geometry multiplied; positions decay to a third."""
    s = Settings()
    raised = {name: factor * getattr(s, name) for name in ("scaling_lr", "rotation_lr", "opacity_lr")}
    raised |= {"position_lr_init": factor * s.position_lr_init, "position_lr_final": factor * s.position_lr_init / 3}
    return replace(s, **(raised | more))


class Adversary(GaussianSplatting):
    """Gradients of most rows attain the bound of `odin.bound`, towards the edges of views and larger sizes.

    Others get random signs at magnitudes from 1e-20 to 1e18, or none although they are in view. A structural event
    zeroes the moments of a third of the rows, beside what it does of itself.
    """

    def __init__(self, *args: object, seed: int, **more: object) -> None:
        super().__init__(*args, **more)
        self._rng = np.random.default_rng([seed, 1])
        self._step = -1
        self._settle()

    def _settle(self) -> None:
        """Characters and targets for the rows of a new table."""
        rows = len(self.table)
        self._kind = self._rng.choice([WORST, RANDOM, SILENT], rows, p=[0.7, 0.2, 0.1])
        self._target = self._aim(rows)
        self._given = np.zeros(rows, bool)

    def _aim(self, count: int) -> Doubles:
        """Points a little inside or outside the edge of a view, near and far, [count, 3]."""
        rng, which, out = self._rng, self._rng.integers(0, VIEWS, count), np.empty((count, 3))
        for k in np.unique(which):
            camera, mine = self.cameras[k], which == k
            depth = np.exp(rng.uniform(np.log(0.1), np.log(6.0), mine.sum()))
            slopes = rng.uniform(-1.6, 1.6, (mine.sum(), 2)) * [camera.tan_x, camera.tan_y]
            out[mine] = (np.column_stack([slopes * depth[:, None], depth]) - camera.translation) @ camera.rotation
        return out

    def project(self, view: int, rows: Ids, keeper: Keeper) -> GaussianFrame:
        if keeper.step != self._step:
            self._step, self._given[:] = keeper.step, False
            again = self._rng.random(len(self.table)) < 0.02
            self._target[again] = self._aim(int(again.sum()))
        return super().project(view, rows, keeper)

    def render(self, frame: GaussianFrame, keeper: Keeper) -> float:
        return 0.0

    def backward_colours(self, frame: GaussianFrame) -> NDArray[np.float32]:
        return self._once(frame.rows, self._anything((len(frame.rows), COLOUR.stop - COLOUR.start)))

    def backward_geometry(self, frame: GaussianFrame) -> NDArray[np.float32]:
        rows = frame.rows
        m, v = (moments.numpy()[rows, GEOMETRY].astype(np.float64) for moments in (self.table.m, self.table.v))
        chosen = -self._wish(rows)
        chosen *= worst(m, v, chosen, self._rng)
        random = self._kind[rows] == RANDOM
        chosen[random] = self._anything((int(random.sum()), 11))
        gradient = self._once(rows, chosen)
        self.statistics.add(rows, np.float32(self._kind[rows] == SILENT), frame.visible)
        self._given[rows] = True
        return gradient

    def _anything(self, shape: tuple[int, int]) -> Doubles:
        return self._rng.choice([-1.0, 1.0], shape) * 10.0 ** self._rng.uniform(-20, 18, shape)

    def _once(self, rows: Ids, gradient: Doubles) -> NDArray[np.float32]:
        """A row that several views of a step touch has its gradient from the first; silent rows have none."""
        silent = (self._kind[rows] == SILENT) | self._given[rows]
        return np.where(silent[:, None], 0.0, gradient * self._batch).astype(np.float32)

    def _wish(self, rows: Ids) -> Doubles:
        """Which way each geometry column should go, ±1, [M, 11]."""
        p = self.table.parameters.numpy()[rows].astype(np.float64)
        wish = self._rng.choice([-1.0, 1.0], (len(rows), 11))
        wish[:, XYZ] = np.where(self._target[rows] > p[:, XYZ], 1.0, -1.0)
        grows = p[:, SCALE].max(axis=1) < np.log(0.05 * self.extent)
        wish[:, SCALE] = np.where(grows, 1.0, -1.0)[:, None]
        wish[:, OPACITY] = np.where(p[:, OPACITY] < 6.0, 1.0, -1.0)
        return wish

    def restructure(self, step: int, events: Event, version: int, *more: object) -> None:
        super().restructure(step, events, version, *more)
        zeroed = self._rng.random(len(self.table)) < 1 / 3
        self.table.m[zeroed], self.table.v[zeroed] = 0.0, 0.0
        self._settle()


def worst(m: Doubles, v: Doubles, sign: Doubles, rng: np.random.Generator) -> Doubles:
    """Size of the gradient of that sign after which |m| / √v is largest.

    Along the momentum it is (1-β1) / (1-β2) · β2·v / (β1·|m|); a history of such gradients grows like (β2/β1)ⁱ.
    Against it there is no largest one: 30 times what v remembers. The first gradient may have any size.
    """
    along = m * sign > 0
    best = (1 - BETA1) / (1 - BETA2) * BETA2 * v / (BETA1 * np.where(along, np.abs(m), 1.0))
    size = np.where(along, best, 30.0 * np.sqrt(v / (1 - BETA2)))
    return np.minimum(np.where(v > 0, size, 10.0 ** rng.uniform(-12, 2, v.shape)), _LARGEST)
