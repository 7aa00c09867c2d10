"""Policies that hold the scopes they are given against what is drawn later, and what they saw.

Legend: N rows, V views.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from odin.arms import arm
from odin.bitmap import unpack
from odin.bound import adam_bound, selective_bound
from odin.comm.transport import SingleRank
from odin.inflation import Inflation
from odin.keeper import Keeper
from odin.plan import Plan
from odin.publication import GatedPublication, UrgentPublication
from odin.publication.scoped import ScopedPublication
from odin.runtime import Runtime
from pipelines.columns import GEOMETRY, XYZ
from pipelines.reference.settings import Settings
from pipelines.reference.threedgs import GaussianSplatting
from pipelines.render import projection
from pipelines.render.cpu import CpuRenderer
from tests.pipelines.adversary import VIEWS, Adversary, capture

UNIT = 3
RENDERER = CpuRenderer()


@dataclass
class Account:
    """What a run has seen; counts are pairs of a row and a camera, over all steps.

    drawn:    rows with a radius above 0
    missed:   those that the scope does not hold
    plain, one: the same if nothing had been inflated, or for one update instead of two
    scope, plain_scope: sizes of the scope, and without inflation
    attained: largest move of a centre's component by one update, as a share of its bound
    digest:   of all scopes
    """

    steps: int = 0
    drawn: int = 0
    missed: int = 0
    plain: int = 0
    one: int = 0
    scope: int = 0
    plain_scope: int = 0
    attained: float = 0.0
    digest: int = 0

    @property
    def growth(self) -> float:
        """By what share inflation makes scopes larger."""
        return self.scope / self.plain_scope - 1.0


class Watched(ScopedPublication):
    """At p0 of a step, when all of its predecessor is published, the step's scopes, taken of ALL cameras and as
    early as it takes its own, are held against what the cameras draw."""

    def __init__(self, *args: object, **more: object) -> None:
        super().__init__(*args, **more)
        self.account = Account()
        self._taken: dict[int, list[NDArray[np.bool_]]] = {}
        self._centres: tuple[int, NDArray[np.float32]] = (-2, np.empty((0, 3), np.float32))

    def restart(self, step: int) -> None:
        self._taken.clear()
        self._centres = (-2, self._centres[1])
        super().restart(step)

    def _scope(self, step: int, inflation: Callable[[], Inflation]) -> None:
        made = inflation()
        super()._scope(step, lambda: made)
        rows = len(self.recipe.table)
        one = replace(made, level=np.zeros(rows, np.uint8))
        kinds = (made, Inflation.none(rows), one)
        self._taken[step] = [unpack(self.recipe.scope(range(VIEWS), kind), rows) for kind in kinds]

    def _finish(self, step: int) -> None:
        super()._finish(step)
        if step + 1 in self._taken:
            self._measure(step + 1)
            self._look(step + 1)

    def _measure(self, step: int) -> None:
        """How far the last update has moved centres, if the one before was looked at as well."""
        recipe, (before, centres) = self.recipe, self._centres
        now = recipe.table.parameters[:, XYZ].numpy().copy()
        if before == step - 1:
            t = recipe.table.t - (self.ledger.pending(step) is not None)
            bound = selective_bound(t) if recipe.table.selective else adam_bound(t)
            reach = recipe.learning_rates(step - 1)[XYZ].max() * bound + 2 * np.spacing(np.abs(now))
            self.account.attained = max(self.account.attained, float((np.abs(now - centres) / reach).max()))
        self._centres = (step, now)

    def _look(self, step: int) -> None:
        account, (scope, plain, one) = self.account, self._taken[step]
        shown = drawn(self.recipe, thorough=step % 20 == 0)
        account.steps += 1
        account.drawn += int(shown.sum())
        account.missed += int((shown & ~scope).sum())
        account.plain += int((shown & ~plain).sum())
        account.one += int((shown & ~one).sum())
        account.scope += int(scope.sum())
        account.plain_scope += int(plain.sum())
        account.digest = zlib.crc32(scope.tobytes(), account.digest)


class WatchedUrgent(Watched, UrgentPublication):
    """`quality`."""


class WatchedGated(Watched, GatedPublication):
    """`throughput`; looks at the values that rows are read with as well."""

    def before_projection(self, step: int, position: int) -> None:
        super().before_projection(step, position)
        if position == 0:
            self._look(step)


def drawn(recipe: GaussianSplatting, *, thorough: bool) -> NDArray[np.bool_]:
    """Rows with a radius above 0 in each view, [V, N]; thorough: in either projection."""
    geometry = recipe.table.parameters[:, GEOMETRY].contiguous()
    kinds = (RENDERER, projection) if thorough else (RENDERER,)
    masks = [[kind.project(geometry, camera).radii.numpy() > 0 for camera in recipe.cameras] for kind in kinds]
    return np.any(masks, axis=0)


def make_plan(steps: int, recipe: GaussianSplatting, seed: int, ranks: int = 1) -> Plan:
    """UNIT random views per step and rank; windows with a structural event are blocking."""
    rng = np.random.default_rng([seed, 2])
    units = np.stack([rng.permutation(VIEWS)[: UNIT * ranks] for _ in range(steps)])
    return Plan(
        units=units.reshape(steps, ranks, UNIT).astype(np.int32),
        region=np.full(steps, -1, np.int32),
        mixed=np.zeros(steps, bool),
        blocking=recipe.schedule.boundaries()[:-1].astype(np.int32),
        train_count=VIEWS,
    )


def run(
    steps: int,
    settings: Settings,
    seed: int,
    *,
    policy: type[Watched] = WatchedUrgent,
    name: str = "quality",
    adversary: type[Adversary] = Adversary,
) -> tuple[Account, Runtime]:
    """Train an adversary along random views; what became of its scopes."""
    recipe = adversary(capture(seed), settings, RENDERER, steps=steps, batch=UNIT, seed=seed)
    plan = make_plan(steps, recipe, seed)
    runtime = Runtime(recipe, plan, arm(name), SingleRank(), Keeper(), policy=policy)
    runtime.run()
    return runtime.publication.account, runtime
