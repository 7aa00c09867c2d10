"""Tiny rooms trained by owners and ranks as threads of one process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from harness.config import load
from harness.run.together import run_threads
from harness.run.workload import Workload, load_workload
from odin.arms import arm as arm_named
from odin.audit import AuditRecord
from odin.comm.link import Link
from odin.keeper import Entry, NominalKeeper, Work
from odin.losses import StepRecord
from odin.mixed import MixedRuntime, mixed_runtime
from odin.mixed.bands import Task
from odin.mixed.flight import Flight
from odin.mixed.owners import Owners
from odin.plan import Plan
from odin.publication import Window
from pipelines.reference.grendel import GrendelSettings, GrendelSplatting

TINY = "rooms?views=24&width=64&height=48&points=600"
BATCH = 4
LINK = Link(name="test", beta=2e8)


def price(phase: str, work: Work) -> float:
    """Nominal seconds of a phase."""
    return 1e-5 + 1e-7 * work.rows + 1e-8 * work.entries + 1e-9 * work.fragments + 1e-8 * work.pixels


@cache
def workload() -> Workload:
    """A scene; how many ranks train it is up to `trained`."""
    return load_workload(load([f"scene={TINY}", "ranks=4", "views_per_unit=1", "engine=virtual", "test_every=0"]))


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A finished run. digest: of the whole model, parameters, moments, statistics and counters; divisions: of each
    step, as rank 0 knew them."""

    digest: str
    rows: list[int]
    records: list[list[StepRecord]]
    entries: list[list[Entry]]
    windows: list[list[Window]]
    payload: list[dict[int, int]]
    model: GrendelSplatting
    divisions: list[tuple[Task, ...]]
    audits: list[list[AuditRecord]]


def settings_of(**more: object) -> GrendelSettings:
    """Every kind of event, and the square-root rule."""
    events = {"densify_at": (6, 14), "reset_at": (9,), "sh_at": (3, 12), "densify_grad_threshold": 1e-5}
    return GrendelSettings(seed=1, **(events | more))


def plan_of(scene: Workload, arm: str, steps: int, settings: GrendelSettings) -> Plan:
    """Views of four ranks; for fewer ranks the same steps, more views each."""
    return scene.plan_for(arm_named(arm), settings, steps)


def recipe_of(scene: Workload, settings: GrendelSettings, steps: int) -> GrendelSplatting:
    return GrendelSplatting(scene.capture, settings, scene.backend.renderer, steps=steps, batch=BATCH)


def trained(
    scene: Workload,
    arm: str,
    ranks: int,
    *,
    steps: int = 18,
    settings: GrendelSettings | None = None,
    runtime: type[MixedRuntime] | None = None,
    order: str | None = None,
    link: Link = LINK,
) -> Trained:
    """Train `arm` on so many ranks; a run is made once and nobody changes it. order: the arm whose plan is followed, if
    it is not its own."""
    assert scene is workload()
    return _trained(arm, ranks, steps, settings or settings_of(), runtime, order, link)


@cache
def _trained(
    arm: str,
    ranks: int,
    steps: int,
    settings: GrendelSettings,
    runtime: type[MixedRuntime] | None,
    order: str | None,
    link: Link,
) -> Trained:
    scene = workload()
    plan = plan_of(scene, order or arm, steps, settings)
    plan = replace(plan, units=plan.units.reshape(steps, ranks, BATCH // ranks))

    def rank(transport: object) -> tuple:
        recipe, keeper = recipe_of(scene, settings, steps), NominalKeeper(price)
        recipe.shard(transport.rank, transport.ranks)
        chosen = arm_named(arm)
        loop = (runtime or mixed_runtime(chosen))(recipe, plan, chosen, transport, keeper)
        divisions, begun = [], loop._begun

        def watched(step: int) -> Flight:
            flight = begun(step)
            divisions.append(flight.division.tasks)
            return flight

        loop._begun = watched
        loop.run()
        entries = list(keeper.entries)
        whole = recipe.whole(Owners(transport, keeper))
        whole.table.t = recipe.table.t
        digest = whole.table.digest() + whole.statistics.local.numpy().tobytes().hex()[:64] + str(whole.degree)
        return (
            digest,
            len(recipe.table),
            loop.records,
            entries,
            loop.windows,
            loop.payload_bytes,
            whole,
            divisions,
            loop.auditor.records,
        )

    every = run_threads(ranks, link, rank)
    assert len({one[0] for one in every}) == 1
    columns = [list(column) for column in zip(*every, strict=True)]
    return Trained(
        digest=columns[0][0],
        rows=columns[1],
        records=columns[2],
        entries=columns[3],
        windows=columns[4],
        payload=columns[5],
        model=columns[6][0],
        divisions=columns[7][0],
        audits=columns[8],
    )


def losses(run: Trained) -> np.ndarray:
    """Mean loss of every step."""
    return np.mean([[r.loss for r in records] for records in run.records], axis=0)
