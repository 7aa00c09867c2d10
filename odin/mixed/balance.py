"""What tile rows of views cost, learnt from their last visits, and the divisions that follow (D§6 load balance).

Costs are learnt by all ranks alike, at points that do not depend on the arm: the sizes of step s carry what the ranks
saw in step s−2, so the division of step s knows costs up to step s−3. Under `quality` the sizes of s leave before s−1
is rendered; no arm can know more without another collective.

Legend: V training views, R most tile rows of a view, L tile rows of a step's views, W ranks.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
from numpy.typing import NDArray

from odin.errors import InputError
from odin.mixed.bands import Division, Task, cut, whole_views
from odin.plan import Plan

LAG = 2  # steps after which a step's costs are announced


class Balance(Enum):
    """How the pixels of a step are assigned to ranks."""

    VIEWS = "views"  # every rank renders whole views, those of its unit
    STATE = "state"  # bands of equal cost, by what was composited at the last visit: a function of state
    TIME = "time"  # bands of equal cost, by measured time, as Grendel; forfeits the bit-identity claim


class Balancer:
    """One rank's knowledge of costs. tile_rows: int64 [V], tile rows of each training view."""

    def __init__(self, mode: Balance, tile_rows: NDArray[np.int64], plan: Plan, rank: int) -> None:
        self.mode, self.rank = mode, rank
        self._rows, self._plan = tile_rows, plan
        self._known = np.zeros((len(tile_rows), int(tile_rows.max(initial=0))), np.int64)  # [V, R], 0: not seen
        self._own: dict[int, NDArray[np.int64]] = {}  # [V, R] of steps that are not announced yet

    @property
    def cuts(self) -> bool:
        """Views may be cut."""
        return self.mode is not Balance.VIEWS

    def division(self, step: int) -> Division:
        """Who renders what of a step, by what is known now. A row that was never seen costs the mean of those that
        were."""
        if not self.cuts:
            return whole_views(self._plan.ranks, self._plan.views_per_unit)
        seen = self._known[self._known > 0]
        usual = float(seen.mean()) if len(seen) else 1.0
        views = self._plan.views(step)
        costs = [self._known[view, : self._rows[view]].astype(np.float64) for view in views]
        return cut([np.where(one > 0, one, usual) for one in costs], self._plan.ranks)

    def note(self, step: int, task: Task, costs: NDArray[np.int64] | int) -> None:
        """What a task of this rank cost: each of its tile rows, or all of them together, which are then taken to cost
        the same (Grendel's heuristic)."""
        if not self.cuts:
            return
        view = int(self._plan.views(step)[task.view])
        first, last = task.band or (0, int(self._rows[view]))
        own = self._own.setdefault(step, np.zeros_like(self._known))
        own[view, first:last] = np.maximum(costs if isinstance(costs, np.ndarray) else costs // (last - first), 1)

    def message(self, step: int) -> NDArray[np.int64]:
        """What this rank tells with the sizes of a step, int64 [L]: costs of the rows that it rendered two steps
        before, 0 elsewhere."""
        own = self._own.pop(step - LAG, None)
        if not self.cuts or step < LAG:
            return np.zeros(0, np.int64)
        own = np.zeros_like(self._known) if own is None else own
        return np.concatenate([own[view, : self._rows[view]] for view in self._plan.views(step - LAG)])

    def learn(self, step: int, told: NDArray[np.int64]) -> None:
        """What all ranks have told with the sizes of a step, int64 [W, L]."""
        if told.shape[1] == 0:
            return
        views = self._plan.views(step - LAG)
        ends = self._rows[views].cumsum()
        for view, costs in zip(views, np.split(told.sum(axis=0), ends[:-1]), strict=True):
            self._known[view, : len(costs)] = costs

    def state(self, next_step: int) -> NDArray[np.int64] | None:
        """All that a resumed run needs, int64 [3·V·R], before `next_step`; None where nothing is learnt."""
        if not self.cuts:
            return None
        none = np.zeros_like(self._known)
        parts = [self._known, *(self._own.get(next_step - lag, none) for lag in (LAG, 1))]
        return np.stack(parts).reshape(-1)

    def restore(self, next_step: int, state: NDArray[np.int64]) -> None:
        """The reverse. Raises InputError for a state of other views or other tile rows."""
        if state.size != 3 * self._known.size:
            raise InputError(
                f"A checkpoint holds {state.size} costs of tile rows, this run has {3 * self._known.size}. Resume with "
                "the scene and the settings that wrote it."
            )
        known, *own = state.reshape(3, *self._known.shape)
        self._known[:] = known
        self._own = {next_step - lag: one.copy() for lag, one in zip((LAG, 1), own, strict=True)}
