"""The training loop of every arm (§4.3, D§6 Program points).

All arms run this loop over the same recipe, plan and row kernel; they differ only in their publication policy.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from odin.arms import Arm, Evidence, Waits
from odin.arriving import Scalar
from odin.budget import Budget
from odin.comm.transport import Transport
from odin.errors import RunError
from odin.finite import require_finite_gradient, require_finite_rows
from odin.keeper import Keeper
from odin.losses import LossLog, StepRecord
from odin.phases import Phase
from odin.plan import Blocking, Plan
from odin.publication import (
    AllOrNonePublication,
    ChunkedPublication,
    GatedPublication,
    LiteralPublication,
    PredictedPublication,
    Publication,
    UrgentPublication,
    WaitingPublication,
)
from odin.publication.knowledge import Knowledge
from odin.recipe import Event, Frame, Recipe
from odin.slot import Slot

POLICIES: dict[Waits, type[Publication]] = {
    Waits.ALL: WaitingPublication,
    Waits.ALL_OR_NONE: AllOrNonePublication,
    Waits.URGENT: UrgentPublication,
    Waits.LITERAL: LiteralPublication,
    Waits.GATED: GatedPublication,
    Waits.NOTHING: PredictedPublication,
}


def policy_of(arm: Arm) -> type[Publication]:
    """The publication policy of an arm."""
    if not arm.sas:
        return WaitingPublication
    if arm.waits is Waits.GATED and arm.evidence is not Evidence.HISTORY:
        return ChunkedPublication
    return POLICIES[arm.waits]


class RankSum:
    """The `Reduce` of a structural event: sums on the step's link."""

    def __init__(self, transport: Transport, keeper: Keeper) -> None:
        self.rank, self.ranks = transport.rank, transport.ranks
        self._transport, self._keeper = transport, keeper

    def __call__(self, tensor: torch.Tensor) -> None:
        """Sum over ranks, in place."""
        self._keeper.wait(self._transport.all_reduce(tensor, self._keeper.join()), "statistics")


OnStep = Callable[[StepRecord], None]


class Runtime:
    """Trains a recipe along a plan under one arm. `version` counts structural events so far; `knowledge` is what the
    arm had learnt where it was interrupted."""

    def __init__(
        self,
        recipe: Recipe[Any],
        plan: Plan,
        arm: Arm,
        transport: Transport,
        keeper: Keeper,
        *,
        version: int = 0,
        policy: type[Publication] | None = None,
        budget: Budget | None = None,
        knowledge: Knowledge | None = None,
    ) -> None:
        self.recipe, self.plan, self.transport, self.keeper = recipe, plan, transport, keeper
        self.publication = (policy or policy_of(arm))(recipe, plan, transport, keeper, arm, budget=budget)
        if self.publication.auditor is not None:
            self.publication.fall_back_to(UrgentPublication)
        self.arms_own = self.publication
        if knowledge is not None:
            self.publication = self.publication.recall(knowledge)
        self.version = version
        self.records: list[StepRecord] = []
        self._losses = LossLog(plan, 0)

    def run(self, start: int = 0, on_step: OnStep | None = None) -> None:
        """Train steps start…plan.steps-1. State is flushed when it returns, and at every blocking window."""
        self.keeper.step, self._losses = start, LossLog(self.plan, start)
        self._moment = self.keeper.begin()
        self.publication.restart(start)
        for step in range(start, self.plan.steps):
            record = self._step(step)
            self.records.append(record)
            if on_step is not None:
                on_step(record)
        self.keeper.resolve()
        self.records = self._losses.completed(self.records, self.keeper.moments)

    def _step(self, step: int) -> StepRecord:
        self.keeper.step = step
        events = self.recipe.events_after(step)
        self._losses.add(self._unit(step))
        if Event.DENSIFY in events:
            self.publication.abandon(step)
        else:
            self.publication.close(step)
        if events:
            self._restructure(step, events)
        following = self.publication.following(step)
        if following is not self.publication or (step + 1 < self.plan.steps and self.plan.blocking[step]):
            self.publication = following
            following.restart(step + 1)
        start, self._moment = self._moment, self.keeper.now()
        if events:
            self.keeper.resolve()
        loss = self._losses.latest()
        return StepRecord(step=step, start=start, end=self._moment, structural=bool(events), loss=loss)

    def _unit(self, step: int) -> list[Scalar]:
        """Project and bin every view of the unit, then blend and go backward view by view; the views' losses."""
        publication = self.publication
        publication.open(step)
        frames = []
        for position, view in enumerate(self.plan.units[step, publication.unit_of(step)]):
            publication.before_projection(step, position)
            rows = publication.rows_for(step, position)
            frames.append(self.recipe.project(int(view), rows, self.keeper))
        losses = []
        for position, frame in enumerate(frames):
            publication.before_blend(step, position)
            losses.append(self.recipe.render(frame, self.keeper))
            if position == 0:  # not before: a host that runs ahead cuts the step now
                slot = publication.slot(step)
            self._backward(step, position, frame, slot)
        return losses

    def _backward(self, step: int, position: int, frame: Frame, slot: Slot) -> None:
        publication, last = self.publication, position == self.plan.views_per_unit - 1
        with self.keeper.phase(Phase.COLOUR_BACKWARD, rows=len(frame.rows)):
            slot.add_colours(frame.rows, self.recipe.backward_colours(frame))
            for group in self.recipe.table.visible_group:
                slot.mark(group, frame.rows, frame.visible)
        if last:
            publication.colours_done(step)
        with self.keeper.phase(Phase.PROJECTION_BACKWARD, rows=len(frame.rows)):
            gradient = self.recipe.backward_geometry(frame)
            require_finite_gradient(gradient, step, frame.view)
            slot.add(0, frame.rows, gradient)
        publication.observe(step, position, frame)
        if not last:
            publication.view_done(step, position)

    def _restructure(self, step: int, events: Event) -> None:
        """Structural barrier: everything is published; afterwards replicas must be the same."""
        if not self.plan.blocking[step : step + 1].any() and step + 1 < self.plan.steps:
            raise AssertionError(f"structural event after step {step}, but its window is not blocking")
        self.publication.ledger.require_flushed()
        table = self.recipe.table
        if not table.once(lambda: bool(np.isfinite(table.values()).all())):  # densification cannot place such rows
            require_finite_rows(table.values(), step)
        self.version += 1
        self.recipe.restructure(step, events, self.version, RankSum(self.transport, self.keeper), self.keeper)
        with self.keeper.phase(Phase.REPLICAS, rows=len(self.recipe.table)):
            self.require_equal_replicas(step)

    def require_equal_replicas(self, step: int) -> None:
        """Raise RunError naming the ranks whose table differs from rank 0's, or where all hold NaN or infinity."""
        table = self.recipe.table
        mine, finite = table.once(lambda: _fingerprint(table.values(), table.t))
        hashes = torch.zeros(self.transport.ranks, dtype=torch.int64)
        hashes[self.transport.rank] = mine
        self.transport.reduce_now(hashes)
        differing = [r for r in range(self.transport.ranks) if hashes[r] != hashes[0]]
        if differing:
            raise RunError(
                f"After the structural event at step {step} the parameters of rank(s) {differing} differ from "
                "rank 0's. Replicas must stay identical; a rank has read or reduced something else. The run was "
                "stopped and its record is marked failed."
            )
        if not finite:
            require_finite_rows(table.values(), step)


def _fingerprint(values: NDArray[np.float32], t: int) -> tuple[int, bool]:
    """A hash of a table and its counter, and whether it holds neither NaN nor infinity."""
    return zlib.crc32(values.tobytes(), t), bool(np.isfinite(values).all())


def checkpoint_boundaries(plan: Plan, every: int) -> Plan:
    """The same plan with a blocking window after every `every`-th step, so that state is flushed there."""
    blocking = plan.blocking.copy()
    blocking[every - 1 :: every] |= Blocking.CHECKPOINT
    return replace(plan, blocking=blocking)
