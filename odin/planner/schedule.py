"""Static data scheduling (SDS) and static asynchronous scheduling (SAS), §4.2.

Legend: V training views, K regions, S steps, W ranks, U views per unit, B = W·U.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odin.errors import InputError
from odin.plan import Blocking
from odin.planner.partition import partition, region_coupling
from odin.planner.rlg import LocalityGraph
from odin.planner.stream import check_batch, crosses_epoch, epoch_order, seeded


@dataclass(frozen=True, kw_only=True)
class StepOrder:
    """What SDS decides; the fields of the same names in `Plan`.

    units:  int32 [S, W, U]
    region: int32 [S], the region a step was drawn from
    mixed:  bool [S], the step also holds views of another region or of the next epoch
    """

    units: NDArray[np.int32]
    region: NDArray[np.int32]
    mixed: NDArray[np.bool_]


def schedule_steps(
    graph: LocalityGraph,
    centres: NDArray[np.float64],
    *,
    regions: int,
    ranks: int,
    views_per_unit: int,
    steps: int,
    seed: int,
    shuffled: bool = False,
) -> StepOrder:
    """Order the views so that consecutive steps are weakly coupled (SDS, §4.2).

    A step takes B views of one region, those of least coupling to the step before (eq. 2). The regions take
    turns: each is drawn from as often as the others before any is drawn from again, the least coupled to
    the last region first. Regions that can still fill a step come before those that cannot. A region with
    fewer than B views left in this epoch is completed from the others, the most strongly coupled first, and
    once the epoch is used up from the next epoch, its own region first.

    Hence after every step the visits of two views differ by at most one, and after a whole number of epochs
    they are equal. (Steps are the finest grain at which this holds: the order of views inside a step
    follows the camera positions, so that near views share a unit, and in a unit the coupling, not the order of the
    fill.) With `shuffled`, regions that are due follow each other at random (the ablation without SDS).

    The seed chooses the first region and breaks ties: between views anew in every epoch.
    Raises InputError if B > V or a count is out of range.
    """
    count, batch = len(centres), ranks * views_per_unit
    check_batch(count, ranks, views_per_unit, steps)
    label = partition(centres, regions)
    rotation = _Rotation(region_coupling(graph, label, regions), seed, shuffled=shuffled)
    views = np.empty((steps, batch), np.int64)
    region = np.empty(steps, np.int32)
    visits = np.zeros(count, np.int64)
    previous = np.empty(0, np.int64)
    for step in range(steps):
        epoch = step * batch // count
        if step == 0 or epoch != (step - 1) * batch // count:
            rotation.restart()
            tie_break = np.argsort(epoch_order(count, seed, epoch))
        left = visits == epoch
        region[step] = rotation.advance(np.bincount(label[left], minlength=regions), batch)
        pool = np.flatnonzero(left & (label == region[step]))
        if len(pool) < batch:
            pool = np.arange(count)
        distance = rotation.fill_rank(region[step])[label[pool]]
        score = coupling_to(graph, previous)[pool]
        previous = pool[np.lexsort((tie_break[pool], score, distance, ~left[pool]))[:batch]]
        views[step] = previous
        visits[previous] += 1
    units = _near_views_together(views, centres).reshape(steps, ranks, views_per_unit)
    mixed = (label[views] != region[:, None]).any(axis=1) | crosses_epoch(count, batch, steps)
    return StepOrder(
        units=_least_coupled_first(graph, units),
        region=region,
        mixed=mixed,
    )


def coupling_to(graph: LocalityGraph, views: NDArray[np.integer]) -> NDArray[np.float64]:
    """Score of every view against the step `views` (eq. 2), float64 [V]; a view itself couples with 1."""
    neighbours, weights = graph.edges_of(views)
    score = np.zeros(graph.view_count)
    np.add.at(score, neighbours, weights)
    score[views] += 1.0
    return score


def _least_coupled_first(graph: LocalityGraph, units: NDArray[np.int32]) -> NDArray[np.int32]:
    """The views of each unit [S, W, U] by rising coupling to the step before: what a unit's first views read is waited
    for first, so they should read little of what is pending (D§6 `unit_order`)."""
    out = units.copy()
    for step in range(1, len(units)):
        score = coupling_to(graph, units[step - 1].reshape(-1))[units[step]]
        out[step] = np.take_along_axis(units[step], np.argsort(score, axis=1, kind="stable"), axis=1)
    return out


class _Rotation:
    """Whose turn it is. Balanced within an epoch, weakly coupled successors first, or in random order."""

    def __init__(self, coupling: NDArray[np.float64], seed: int, *, shuffled: bool) -> None:
        self._coupling, self._random = coupling, seeded(seed, 2) if shuffled else None
        self._tie_break = seeded(seed).permutation(len(coupling))
        self._turns = np.zeros(len(coupling), np.int64)
        self._last: int | None = None

    def restart(self) -> None:
        """A new epoch: all regions are full again."""
        self._turns[:] = 0

    def advance(self, left: NDArray[np.int64], batch: int) -> int:
        """The region of the next step, given the views left per region, int64 [K]."""
        able = left >= batch
        able = able if able.any() else left > 0
        due = np.flatnonzero(able & (self._turns == self._turns[able].min()))
        if self._random is not None:
            self._last = int(self._random.choice(due))
        elif self._last is None:
            self._last = int(due[np.argmin(self._tie_break[due])])
        else:
            fresh = due[due != self._last] if len(due) > 1 else due
            order = np.lexsort((self._tie_break[fresh], self._coupling[self._last, fresh]))
            self._last = int(fresh[order[0]])
        self._turns[self._last] += 1
        return self._last

    def fill_rank(self, region: int) -> NDArray[np.int64]:
        """Place of each region when a step of `region` is completed, int64 [K]; the region itself is 0."""
        strength = self._coupling[region].copy()
        strength[region] = np.inf
        return np.argsort(np.lexsort((self._tie_break, -strength)))


def _near_views_together(views: NDArray[np.int64], centres: NDArray[np.float64]) -> NDArray[np.int32]:
    """The views of each step [S, B] along a space-filling curve, so that a unit gets near ones."""
    place = partition(centres, len(centres))
    order = np.argsort(place[views], axis=1)
    return np.take_along_axis(views, order, axis=1).astype(np.int32)


def blocking_flags(
    steps: int,
    *,
    structural_after: NDArray[np.bool_] | None = None,
    memory: NDArray[np.bool_] | None = None,
    no_gain: NDArray[np.bool_] | None = None,
) -> NDArray[np.int32]:
    """State of the windows (SAS, §4.2), int32 [S-1] of `Blocking`.

    structural_after: bool [S], a structural event falls on the boundary after step s
    memory:           bool [S-1], the window's live state exceeds the memory budget
    no_gain:          bool [S-1], the phase profile predicts no gain

    None means not evaluated: it blocks nothing. Raises InputError for a wrong length.
    """
    windows = max(steps - 1, 0)
    flags = np.zeros(windows, np.int32)
    given = (
        (Blocking.STRUCTURAL, structural_after, steps),
        (Blocking.MEMORY, memory, windows),
        (Blocking.NO_GAIN, no_gain, windows),
    )
    for reason, where, expected in given:
        if where is None:
            continue
        if len(where) != expected:
            raise InputError(
                f"{reason.name} flags: {len(where)} given, {expected} expected for a plan of {steps} steps."
            )
        flags[np.asarray(where[:windows], bool)] |= int(reason)
    return flags
