"""The training loop with DDP in it: view by view, `no_sync` for all but the unit's last, then wait and update.

Values, order of additions, row kernel and link are those of `barrier`, so the two arms are bit-identical; they differ
in what torch costs between them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from odin.arms import Arm
from odin.arriving import Scalar, mean
from odin.budget import Budget
from odin.comm.transport import Transport
from odin.ddp.buckets import Buckets
from odin.errors import InputError
from odin.keeper import Keeper
from odin.phases import Phase
from odin.plan import Plan
from odin.publication import Publication, Window, WindowState
from odin.publication.knowledge import Knowledge
from odin.recipe import Frame, Recipe
from odin.runtime import Runtime


class DdpPublication(Publication):
    """Waits for both buckets after backward, then updates every row, as `barrier` does."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        if self.recipe.table.selective:
            raise InputError(
                "The arm ddp has no column for selective Adam's visible rows. Use optimizer=dense, or "
                "leave the arm out."
            )
        self._buckets: Buckets | None = None
        self._wrap()  # before the cell's clock starts, as a user's set-up would be

    @property
    def buckets(self) -> Buckets:
        """The current wrapping."""
        assert self._buckets is not None
        return self._buckets

    def restart(self, step: int) -> None:
        """Wrap again if an event has replaced the table. Every rank does so at the same step."""
        table = self.recipe.table
        if not self.buckets.wraps(table):
            with self.keeper.phase(Phase.DDP_WRAP, rows=len(table)):
                self._wrap()

    def open(self, step: int) -> None:
        """Zero the gradients."""
        self._own_rows = []
        with self.keeper.phase(Phase.CLEAR, rows=len(self.recipe.table)):
            self.buckets.clear()

    def close(self, step: int) -> None:
        """Wait for the buckets in link order, update every row."""
        for name, handle in self.buckets.sent():
            self.keeper.wait(handle, name)
            self.payload_bytes[step] = self.payload_bytes.get(step, 0) + handle.nbytes
        self.buckets.gather()
        table, slot = self.recipe.table, self.buckets.slot
        update = table.bind(step, self.recipe.learning_rates(step), 1.0 / self.plan.global_batch)
        with self.keeper.phase(Phase.UPDATE, rows=len(table)) as work:
            work.entries = len(table) * table.layout.columns
            table.apply_gradient(update, table.every_row, 0, len(table.layout.groups), slot)
        table.published(update)
        self.recipe.published(step)
        self._account(replace(self._window(step), reason=self._reason(step)))

    def abandon(self, step: int) -> None:
        """Every view was under `no_sync`: nothing was sent, and the gradients go with the table."""
        self._account(Window(step=step, state=WindowState.REJECTED, reason=self._reason(step)))

    def _open_window(self, step: int) -> None:
        raise AssertionError("ddp opens no window")

    def _wrap(self) -> None:
        self._buckets = None  # the old buckets are freed before there are new ones
        self._buckets = Buckets(self.recipe.table, self._two_buckets(), self.transport, self.keeper)


class DdpRuntime(Runtime):
    """As `Runtime`, for the arm `ddp`. Raises InputError where there is no process group for DDP to be in."""

    publication: DdpPublication

    def __init__(
        self,
        recipe: Recipe[Any],
        plan: Plan,
        arm: Arm,
        transport: Transport,
        keeper: Keeper,
        *,
        version: int = 0,
        budget: Budget | None = None,
        knowledge: Knowledge | None = None,
    ) -> None:
        if not dist.is_initialized():
            raise InputError(
                f"The arm {arm.name} wraps its parameters in torch's DistributedDataParallel, which needs a process "
                "group; a run of one rank has none. Use ranks=2, or leave the arm out: on one rank it would do what "
                "barrier does."
            )
        super().__init__(
            recipe,
            plan,
            arm,
            transport,
            keeper,
            version=version,
            policy=DdpPublication,
            budget=budget,
            knowledge=knowledge,
        )

    def _unit(self, step: int) -> list[Scalar]:
        """Project, render and go backward view by view; the views' losses."""
        publication, views = self.publication, self.plan.units[step, self.transport.rank]
        publication.open(step)
        exchange = not publication.drops_gradient(step)
        losses: list[Scalar] = []
        for position, view in enumerate(views):
            rows = publication.rows_for(step, position)
            one = _View(self.recipe, self.keeper, publication.buckets, int(view), rows)
            losses.append(publication.buckets.train(one, exchange=exchange and position == len(views) - 1))
        return losses


class _View:
    """One view through the recipe, as the wrapped module calls for it."""

    _frame: Frame

    def __init__(self, recipe: Recipe[Any], keeper: Keeper, buckets: Buckets, view: int, rows: np.ndarray) -> None:
        self._recipe, self._keeper, self._buckets = recipe, keeper, buckets
        self._view, self._rows = view, rows

    def forward(self) -> float:
        with self._buckets.inside.ours():
            self._frame = self._recipe.project(self._view, self._rows, self._keeper)
            return mean([self._recipe.render(self._frame, self._keeper)])

    def colours(self) -> torch.Tensor:
        return self._buckets.dense(
            1, Phase.COLOUR_BACKWARD, self._rows, lambda: self._recipe.backward_colours(self._frame)
        )

    def geometry(self) -> torch.Tensor:
        return self._buckets.dense(
            0, Phase.PROJECTION_BACKWARD, self._rows, lambda: self._recipe.backward_geometry(self._frame)
        )
