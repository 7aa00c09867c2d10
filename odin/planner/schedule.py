"""Static data scheduling (SDS) and static asynchronous scheduling (SAS), §4.2.

Legend: V training views, K regions, S steps, W ranks, U views per unit, B = W·U.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count as count_from

import numpy as np
from numpy.typing import NDArray

from odin.errors import InputError
from odin.plan import Blocking
from odin.planner import sds_kernels as kernels
from odin.planner.anneal import anneal_epoch, dense_coupling
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
    proposals: int = 0,
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

    proposals: trades that annealing tries per view and epoch between views of one region (`anneal`); it needs
        memory for all pairs. A step then holds what the search found instead of what eq. 2 picks.

    The seed chooses the first region and breaks ties: between views anew in every epoch.
    Raises InputError if B > V or a count is out of range.
    """
    count, batch = len(centres), ranks * views_per_unit
    check_batch(count, ranks, views_per_unit, steps)
    label = partition(centres, regions)
    stream = _Stream(graph, label, region_coupling(graph, label, regions), seed, shuffled=shuffled)
    # Whole epochs where a search looks ahead, so that a longer plan begins with the shorter one.
    whole = -(-(-(-steps * batch // count) * count) // batch) if proposals else steps
    views, region = stream.fill(whole, batch, proposals)
    views, region = views[:steps], region[:steps]
    units = _near_views_together(views, centres).reshape(steps, ranks, views_per_unit)
    mixed = (label[views] != region[:, None]).any(axis=1) | crosses_epoch(count, batch, steps)
    return StepOrder(units=_least_coupled_first(graph, units), region=region, mixed=mixed)


class _Stream:
    """The continuous stream of epochs, filled epoch by epoch: regions take turns, views follow eq. 2."""

    def __init__(
        self,
        graph: LocalityGraph,
        label: NDArray[np.int32],
        coupling: NDArray[np.float64],
        seed: int,
        *,
        shuffled: bool,
    ) -> None:
        self._graph, self._label, self._coupling = graph, label, coupling
        self._seed, self._shuffled = seed, shuffled
        self._tie_break = seeded(seed).permutation(len(coupling))
        self._rank = np.stack([self._fill_order(region) for region in range(len(coupling))])
        self._pending = np.ones(graph.view_count, bool)

    def _fill_order(self, region: int) -> NDArray[np.int64]:
        """All regions in the order in which a step of `region` is filled: itself, then the most coupled first."""
        strength = self._coupling[region].copy()
        strength[region] = np.inf
        return np.lexsort((self._tie_break, -strength))

    def fill(self, steps: int, batch: int, proposals: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Views of each step, int64 [S, B], and the region each was drawn from, int32 [S]."""
        views, region = np.empty((steps, batch), np.int64), np.empty(steps, np.int32)
        draws = seeded(self._seed, 2).random(steps) if self._shuffled else np.full(steps, -1.0)
        matrix = dense_coupling(self._graph) if proposals else None
        done, head = 0, 0
        for epoch in count_from(0):
            order = epoch_order(self._graph.view_count, self._seed, epoch)
            begun, got = self._fill_epoch(order, done, views, region, draws)
            first, done = done, done + begun
            movable = (begun - 1) * batch + got
            self._pending[:] = True
            head = batch - got
            if head:
                views[done - 1, got:] = self._from_next_epoch(
                    views[done - 1, :got], views[max(done - 2, 0) : done - 1].reshape(-1), order, region[done - 1]
                )[:head]
                self._pending[views[done - 1, got:]] = False
            if matrix is not None:
                anneal_epoch(
                    matrix, self._label, views[:done], first, movable,
                    proposals=proposals * self._graph.view_count, seed=self._seed + epoch,
                )  # fmt: skip
            if done == steps:
                return views, region
        raise AssertionError("unreachable: epochs do not end")

    def _fill_epoch(
        self,
        order: NDArray[np.int64],
        done: int,
        views: NDArray[np.int64],
        region: NDArray[np.int32],
        draws: NDArray[np.float64],
    ) -> tuple[int, int]:
        """Fill steps from `done` on until the epoch is used up: steps begun, and views in the last of them."""
        graph, count, regions = self._graph, self._graph.view_count, len(self._coupling)
        head, left, turns = np.empty((3, regions), np.int64)
        after, before = np.empty((2, count), np.int64)
        kernels.link_lists(order, self._label, self._pending, head, after, before, left)
        turns[:] = 0
        return kernels.fill_steps(
            views[done:], region[done:], graph.offsets, graph.neighbours, graph.weights, head, after, before, left,
            turns, self._coupling, self._rank, self._tie_break, int(region[done - 1]) if done else -1,
            views[done - 1] if done else np.empty(0, np.int64), draws[done:], np.zeros(count),
        )  # fmt: skip

    def _from_next_epoch(
        self,
        step: NDArray[np.int64],
        previous: NDArray[np.int64],
        order: NDArray[np.int64],
        region: int,
    ) -> NDArray[np.int64]:
        """Views that complete `step`, best first: those of its region, then of the most coupled, by eq. 2."""
        pool = np.setdiff1d(np.arange(self._graph.view_count), step)
        distance = np.argsort(self._rank[region])[self._label[pool]]
        score = coupling_to(self._graph, previous)[pool]
        return pool[np.lexsort((np.argsort(order)[pool], score, distance))]


def coupling_to(graph: LocalityGraph, views: NDArray[np.integer]) -> NDArray[np.float64]:
    """Score of every view against the step `views` (eq. 2), float64 [V]; a view itself couples with 1."""
    score = np.zeros(graph.view_count)
    kernels.add_scores(graph.offsets, graph.neighbours, graph.weights, np.ascontiguousarray(views, np.int64), score)
    return score


def _least_coupled_first(graph: LocalityGraph, units: NDArray[np.int32]) -> NDArray[np.int32]:
    """The views of each unit [S, W, U] by rising coupling to the step before: what a unit's first views read is waited
    for first, so they should read little of what is pending (D§6 `unit_order`)."""
    steps = units.reshape(len(units), -1).astype(np.int64)
    score = np.zeros(steps.shape)
    kernels.score_steps(graph.offsets, graph.neighbours, graph.weights, steps, score)
    return np.take_along_axis(units, np.argsort(score.reshape(units.shape), axis=2, kind="stable"), axis=2)


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
