"""Train and re-time the arms of a prediction at one rank count.

The baseline, one exact arm of the plan and every arm that is not exact are trained; the other exact arms have the bits
of that one and are timed from its trajectory (odin.replay).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from harness.measure.breakdown import Breakdown, breakdown
from harness.run.collect import rank_steps, rank_timeline
from harness.run.execute import Executed, execute
from harness.run.together import run_threads
from harness.run.warmup import Calibration
from harness.run.workload import Workload
from odin.arms import Arm, Order, Waits
from odin.arms import arm as arm_named
from odin.comm.transport import Arrival, Handle
from odin.comm.virtual import VirtualTransport
from odin.keeper import NominalKeeper
from odin.losses import StepRecord
from odin.publication import Window
from odin.replay import RecordingRecipe, ReplayLedger, ReplayRecipe, Trajectory
from odin.runtime import Runtime

OnImages = Callable[[int], None]  # images that were trained since the last call


class WindowKeeper(NominalKeeper):
    """Also keeps what was waited for of each step. Every arm waits for collectives in the order in which it joins them.

    waited: step whose gradient was waited for → seconds, of a transfer and of a slower rank
    """

    def __init__(self, calibration: Calibration, transport: VirtualTransport) -> None:
        super().__init__(calibration.profile.price, transport.pace(calibration.slowdown))
        self.waited: dict[int, tuple[float, float]] = {}
        self._joined: list[int] = []

    def join(self) -> float:
        """See NominalKeeper."""
        self._joined.append(self.step)
        return super().join()

    def wait(self, handle: Handle, name: str) -> Arrival:
        """See NominalKeeper."""
        begin, of_step = self.now(), self._joined.pop(0)
        arrival = super().wait(handle, name)
        skew = max(0.0, min(self.now(), arrival.last_join) - begin)
        before = self.waited.get(of_step, (0.0, 0.0))
        self.waited[of_step] = before[0] + self.now() - begin - skew, before[1] + skew
        return arrival


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """One arm at one rank count.

    waited: step → seconds that ranks waited for its gradient, mean over ranks: transfer, skew
    trained: whether it was trained, or timed from the trajectory of an arm with the same bits
    """

    arm: Arm
    ranks: int
    images: int
    parts: Breakdown
    windows: list[Window]
    waited: dict[int, tuple[float, float]]
    views: list[list[int]]
    trained: bool

    @property
    def images_per_second(self) -> float:
        """Throughput."""
        return self.images / (self.parts.step * self.parts.steps)


def trained_arms(names: tuple[str, ...]) -> list[str]:
    """Arms that have to be trained; exact ones are timed from the first of them that takes scopes."""
    source = _source(names)
    return [n for n in names if n not in _exact(names) or n == source]


def predict_arms(
    workload: Workload, names: tuple[str, ...], calibration: Calibration, on_images: OnImages
) -> list[Predicted]:
    """All arms at the configured rank count, in the order of `names`."""
    found: dict[str, Predicted] = {}
    trajectories: list[Trajectory] = []
    source = _source(names)
    for name in sorted(names, key=lambda n: n != source):
        if name in trained_arms(names):
            found[name], recorded = _train(workload, name, calibration, on_images, record=name == source)
            trajectories = recorded or trajectories
        else:
            found[name] = _retime(workload, name, calibration, trajectories)
    return [found[name] for name in names]


def _exact(names: tuple[str, ...]) -> list[str]:
    """Arms that train the bits of the plan's order."""
    return [n for n in names if (one := arm_named(n)).exact and one.order is Order.PLAN]


def _source(names: tuple[str, ...]) -> str | None:
    """The exact arm to record: one that takes scopes, because a waiting arm's trajectory has none."""
    exact = _exact(names)
    scoped = [n for n in exact if arm_named(n).waits is Waits.URGENT]
    return next(iter(scoped or exact), None)


def _train(
    workload: Workload, name: str, calibration: Calibration, on_images: OnImages, *, record: bool
) -> tuple[Predicted, list[Trajectory]]:
    arm, batch = arm_named(name), workload.config.engine.global_batch
    plan = workload.plan(arm)
    records = record and arm.waits is Waits.URGENT

    def told(step: StepRecord) -> None:
        on_images(batch)

    def rank(transport: VirtualTransport) -> tuple[Executed, WindowKeeper, Trajectory | None]:
        recipe = workload.recipe()
        recording = RecordingRecipe(recipe, plan) if records else None
        keeper = WindowKeeper(calibration, transport)
        done = execute(
            workload,
            arm,
            transport,
            keeper,
            recipe=recording or recipe,  # type: ignore[arg-type]  # it passes every call on
            plan=plan,
            budget=calibration.budget(transport.ranks),
            on_step=told if transport.rank == 0 else None,
        )
        return done, keeper, recording.trajectory if recording else None

    seen = run_threads(plan.ranks, calibration.link, rank)
    trajectories = [trajectory for _, _, trajectory in seen if trajectory is not None]
    return _predicted(arm, [done for done, _, _ in seen], [keeper for _, keeper, _ in seen], trained=True), trajectories


def _retime(workload: Workload, name: str, calibration: Calibration, trajectories: list[Trajectory]) -> Predicted:
    arm = arm_named(name)
    plan = workload.plan(arm)

    def rank(transport: VirtualTransport) -> tuple[Executed, WindowKeeper]:
        inner, keeper = workload.recipe(), WindowKeeper(calibration, transport)
        recipe = ReplayRecipe(inner, plan, trajectories[transport.rank], keeper)
        runtime = Runtime(recipe, plan, arm, transport, keeper, budget=calibration.budget(transport.ranks))
        runtime.publication.ledger = ReplayLedger()
        runtime.run()
        publication = runtime.publication
        return Executed(
            plan=plan,
            recipe=inner,
            entries=keeper.entries,
            records=runtime.records,
            windows=publication.windows,
            audits=[],
            delays=[],
            payload=[publication.payload_bytes.get(s, 0) for s in range(plan.steps)],
            late_steps=keeper.late_steps,
            late_causes=keeper.late_causes,
            points=keeper.points,
            origin=runtime.records[0].start,
            initial_rows=trajectories[transport.rank].rows,
        ), keeper

    seen = run_threads(plan.ranks, calibration.link, rank)
    return _predicted(arm, [done for done, _ in seen], [keeper for _, keeper in seen], trained=False)


def _predicted(arm: Arm, ranks: list[Executed], keepers: list[WindowKeeper], *, trained: bool) -> Predicted:
    timeline = pd.concat([rank_timeline(e, rank) for rank, e in enumerate(ranks)], ignore_index=True)
    steps = pd.concat([rank_steps(e, rank) for rank, e in enumerate(ranks)], ignore_index=True)
    plan = ranks[0].plan
    waited = {s: np.mean([k.waited.get(s, (0.0, 0.0)) for k in keepers], axis=0) for s in range(plan.steps)}
    return Predicted(
        arm=arm,
        ranks=plan.ranks,
        images=plan.steps * plan.global_batch,
        parts=breakdown(timeline, steps),
        windows=ranks[0].windows,
        waited={step: (float(both[0]), float(both[1])) for step, both in waited.items()},
        views=[[int(v) for v in plan.views(step)] for step in range(plan.steps)],
        trained=trained,
    )
