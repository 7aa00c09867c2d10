"""Dynamic data scheduling: which rank computes which unit of a step (§4.3 DDS).

Costs are a function of replicated state: what a view's last visit composited and how many rows its scope holds. So
every rank assigns alike, without asking.

Legend: V training views, W ranks (= units of a step).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from odin.arms import Dispatch
from odin.comm.transport import Handle, Transport
from odin.keeper import Keeper
from odin.phases import Phase
from odin.plan import Plan
from odin.recipe import Frame

# What a row costs to project, bin and colour, in composited fragments: 1.31 µs against 3.1 ns (host-cpu profile of fox,
# initial model). The ratio orders units; it need not be exact.
ROW_IN_FRAGMENTS = 400.0


def view_cost(frame: Frame) -> int:
    """What a view costs by what it composited and projected, in fragments."""
    return frame.fragments + round(ROW_IN_FRAGMENTS * len(frame.rows))


class ViewCosts:
    """What each view cost at its last visit, in fragments; `known` is int64 [V], 0 where it was never visited."""

    def __init__(self, views: int) -> None:
        self.known = np.zeros(views, np.int64)

    def learn(self, views: NDArray[np.integer], costs: NDArray[np.int64]) -> None:
        """Costs of the views of a published step, both [B]."""
        self.known[views] = costs

    def unit_costs(self, units: NDArray[np.integer]) -> NDArray[np.float64]:
        """Predicted cost of each unit: [W]. units: [W, U] view ids.

        A view that was never visited counts as the mean of those that were.
        """
        costs = self.known[units].astype(np.float64)
        seen = self.known[self.known > 0]
        costs[costs == 0] = seen.mean() if len(seen) else 0.0
        return costs.sum(axis=1)


def assign(
    costs: Sequence[float] | NDArray[np.float64], ready: NDArray[np.float64], speed: NDArray[np.float64]
) -> NDArray[np.int64]:
    """The unit of each rank, int64 [W]: the longest unit goes to the rank that can begin first, and so on.

    ready: when each rank can begin, in units of cost; speed: of each rank, 1 = reference. With equal ranks that are
    ready together every assignment takes equally long, and rank r keeps unit r.
    """
    ranks = len(ready)
    if np.all(ready == ready[0]) and np.all(speed == speed[0]):
        return np.arange(ranks)
    longest = np.argsort(-np.asarray(costs), kind="stable")
    first = np.lexsort((np.arange(ranks), -speed, ready))
    unit = np.empty(ranks, np.int64)
    unit[first] = longest
    return unit


class Dispatcher:
    """DDS of one rank: assigns the units of a step, and exchanges what the assignment of later steps needs.

    What a step cost travels behind its last segment and counts from the step after its publication on. It only
    matters where ranks can run ahead of each other, that is where nothing is waited for inside a step.
    """

    def __init__(
        self, plan: Plan, transport: Transport, keeper: Keeper, mode: Dispatch, speed: NDArray[np.float64] | None = None
    ) -> None:
        self._plan, self._transport, self._keeper, self._mode = plan, transport, keeper, mode
        self._costs = ViewCosts(plan.train_count)
        self._speed = np.ones(plan.ranks) if speed is None else speed
        self._ready = np.zeros(plan.ranks)
        self._assigned: tuple[int, NDArray[np.int64]] = (-1, np.arange(plan.ranks))
        self._mine: dict[int, NDArray[np.int64]] = {}
        self._sent: dict[int, tuple[Handle, torch.Tensor]] = {}
        self._looked = 0  # entries of the timeline that were already counted

    @property
    def costs(self) -> NDArray[np.int64]:
        """What each view cost at its last published visit, int64 [V], 0 where it was never visited."""
        return self._costs.known

    def reset(self) -> None:
        """All ranks are at the same point."""
        self._ready[:] = 0.0

    def unit(self, step: int) -> int:
        """The unit that this rank computes in a step."""
        if self._assigned[0] != step:
            with self._keeper.phase(Phase.DISPATCH):
                self._assign(step)
        return int(self._assigned[1][self._transport.rank])

    def _assign(self, step: int) -> None:
        units = self._plan.units[step]
        costs = self._costs.unit_costs(units)
        unit = assign(costs, self._ready, self._speed)
        # A rank finishes a step only after all ranks have finished the one before.
        finish = np.maximum(self._ready + costs[unit] / self._speed, self._ready.max())
        self._ready = finish - finish.min()
        self._assigned = (step, unit)

    def note(self, step: int, position: int, frame: Frame) -> None:
        """What a view of this rank's unit cost."""
        mine = self._mine.setdefault(step, np.zeros(self._plan.views_per_unit, np.int64))
        mine[position] = view_cost(frame) if self._mode is Dispatch.STATE else self._microseconds(step)

    def _microseconds(self, step: int) -> int:
        """Measured time of the step since the last view was noted. All views of a unit are projected before its first
        blend, so the first one also counts what the others' projections took; the unit's sum is its time."""
        spent = 0.0
        for entry in reversed(self._keeper.entries[max(self._looked - self._keeper.forgotten, 0) :]):
            if entry.step != step:
                break
            spent += (entry.end - entry.start) if entry.kind == "phase" else 0.0
        self._looked = self._keeper.forgotten + len(self._keeper.entries)
        return int(1e6 * spent)

    def send(self, step: int) -> None:
        """Exchange the step's costs; every rank fills in its own unit."""
        table = torch.zeros((self._plan.ranks, self._plan.views_per_unit), dtype=torch.int64)
        table[self.unit(step)] = torch.from_numpy(self._mine.pop(step))
        flat = table.reshape(-1)
        self._sent[step] = (self._transport.all_reduce(flat, self._keeper.join()), flat)

    def learn(self, step: int) -> None:
        """The step is published: its costs count from now on."""
        handle, flat = self._sent.pop(step)
        self._keeper.wait(handle, "costs")
        self._costs.learn(self._plan.views(step), flat.numpy())
