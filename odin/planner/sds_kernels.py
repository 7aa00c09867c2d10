"""Greedy selection of SDS (eq. 2) in near-linear time.

The views of a region that an epoch has left form a linked list in tie-break order. Only neighbours of the step
before have a score above 0; the others all tie at the minimum, so a step takes the first of them in the list and
sorts neighbours only where nothing else is left. The plain twin, which scores and sorts every view in every step,
is in the tests.

Legend: V views, K regions, B views per step.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(nogil=True, cache=True)
def link_lists(
    order: NDArray, label: NDArray, pending: NDArray, head: NDArray, after: NDArray, before: NDArray, left: NDArray
) -> None:  # pragma: no cover - compiled
    """One list per region of the views with pending[v], in the given order; -1 ends a list. left: int64 [K]."""
    head[:] = -1
    left[:] = 0
    tail = np.full(len(head), -1, np.int64)
    for view in order:
        if not pending[view]:
            continue
        region = label[view]
        left[region] += 1
        before[view], after[view] = tail[region], -1
        if tail[region] < 0:
            head[region] = view
        else:
            after[tail[region]] = view
        tail[region] = view


@njit(nogil=True, cache=True, inline="always")
def _unlink(view: int, region: int, head: NDArray, after: NDArray, before: NDArray) -> None:  # pragma: no cover
    if before[view] < 0:
        head[region] = after[view]
    else:
        after[before[view]] = after[view]
    if after[view] >= 0:
        before[after[view]] = before[view]


@njit(nogil=True, cache=True)
def add_scores(
    offsets: NDArray, neighbours: NDArray, weights: NDArray, views: NDArray, score: NDArray
) -> None:  # pragma: no cover - compiled
    """Add eq. 2 against the step `views` to score, float64 [V]; a view itself couples with 1."""
    for view in views:
        for edge in range(offsets[view], offsets[view + 1]):
            score[neighbours[edge]] += weights[edge]
    for view in views:
        score[view] += 1.0


@njit(nogil=True, cache=True)
def clear_scores(offsets: NDArray, neighbours: NDArray, views: NDArray, score: NDArray) -> None:  # pragma: no cover
    """Undo `add_scores`: all it touched is 0 again."""
    for view in views:
        score[view] = 0.0
        for edge in range(offsets[view], offsets[view + 1]):
            score[neighbours[edge]] = 0.0


@njit(nogil=True, cache=True)
def take_from_region(
    region: int, need: int, head: NDArray, after: NDArray, before: NDArray, score: NDArray, taken: NDArray
) -> int:  # pragma: no cover - compiled
    """Move up to `need` views of least score from the region's list into `taken`; how many.

    Equal scores: the earlier in the list. Both groups come out in that order.
    """
    got, coupled = 0, 0
    view = head[region]
    while view >= 0 and got < need:
        follower = after[view]
        if score[view] == 0.0:
            taken[got] = view
            got += 1
            _unlink(view, region, head, after, before)
        else:
            coupled += 1
        view = follower
    if got == need or coupled == 0:
        return got
    rivals, value = np.empty(coupled, np.int64), np.empty(coupled)
    view, at = head[region], 0
    while view >= 0:
        rivals[at], value[at] = view, score[view]
        at += 1
        view = after[view]
    for at in np.argsort(value, kind="mergesort")[: need - got]:
        taken[got] = rivals[at]
        got += 1
        _unlink(rivals[at], region, head, after, before)
    return got


@njit(nogil=True, cache=True)
def whose_turn(
    left: NDArray, batch: int, turns: NDArray, coupling: NDArray, tie_break: NDArray, last: int, draw: float
) -> int:  # pragma: no cover - compiled
    """Region of the next step: of those that can fill it, drawn from least often, least coupled to the last one.

    left:      int64 [K], views the epoch has left
    tie_break: int64 [K], place of each region among equals, and the first step's choice
    last:      region of the step before; -1: none
    draw:      in [0, 1): take this of the due regions instead (the ablation without SDS); negative: do not
    """
    regions, least = len(left), 1
    for region in range(regions):
        if left[region] >= batch:
            least = batch
    fewest = np.int64(1 << 62)
    for region in range(regions):
        if left[region] >= least:
            fewest = min(fewest, turns[region])
    due, rivals = 0, 0
    for region in range(regions):
        if left[region] >= least and turns[region] == fewest:
            due += 1
            rivals += region != last
    best, seen = -1, 0
    for region in range(regions):
        if left[region] < least or turns[region] != fewest:
            continue
        if draw >= 0.0:
            if seen == int(draw * due):
                best = region
                break
            seen += 1
        elif rivals == 0 or region != last:
            if best < 0:
                best = region
                continue
            ours, theirs = 0.0, 0.0
            if last >= 0:
                ours, theirs = coupling[last, region], coupling[last, best]
            if ours < theirs or (ours == theirs and tie_break[region] < tie_break[best]):
                best = region
    return best


@njit(nogil=True, cache=True)
def fill_steps(
    steps: NDArray, regions: NDArray, offsets: NDArray, neighbours: NDArray, weights: NDArray, head: NDArray,
    after: NDArray, before: NDArray, left: NDArray, turns: NDArray, coupling: NDArray, rank: NDArray,
    tie_break: NDArray, last: int, previous: NDArray, draws: NDArray, score: NDArray,
) -> tuple[int, int]:  # fmt: skip  # pragma: no cover - compiled
    """Fill steps [S, B] and their regions [S] from the lists until the epoch is used up.

    rank: int64 [K, K], regions in the order in which a step of the row's region is filled
    previous: the step before the first, or no views
    draws: float64 [S], see `whose_turn`

    Returns (steps begun, views in the last of them, which may be fewer than B).
    """
    batch = steps.shape[1]
    got = batch
    for step in range(len(steps)):
        if left.sum() == 0:
            return step, got
        region = whose_turn(left, batch, turns, coupling, tie_break, last, draws[step])
        regions[step], last = region, region
        turns[region] += 1
        add_scores(offsets, neighbours, weights, previous, score)
        got = 0
        for source in rank[region]:
            if got < batch:
                more = take_from_region(source, batch - got, head, after, before, score, steps[step, got:])
                left[source] -= more
                got += more
        clear_scores(offsets, neighbours, previous, score)
        previous = steps[step]
        if got < batch:
            return step + 1, got
    return len(steps), got


@njit(nogil=True, cache=True)
def score_steps(
    offsets: NDArray, neighbours: NDArray, weights: NDArray, steps: NDArray, out: NDArray
) -> None:  # pragma: no cover - compiled
    """Eq. 2 of every view of every step [S, B] against the step before it, into out [S, B]; the first step's is 0."""
    score = np.zeros(len(offsets) - 1)
    for step in range(1, len(steps)):
        add_scores(offsets, neighbours, weights, steps[step - 1], score)
        for at in range(steps.shape[1]):
            out[step, at] = score[steps[step, at]]
        clear_scores(offsets, neighbours, steps[step - 1], score)


@njit(nogil=True, cache=True)
def step_couplings(
    offsets: NDArray, neighbours: NDArray, weights: NDArray, steps: NDArray, out: NDArray
) -> None:  # pragma: no cover - compiled
    """Largest weight between each step [S, B] and the next, into out, float64 [S-1]; 1 where they share a view."""
    in_step = np.full(len(offsets) - 1, -1, np.int64)
    for view in steps[0]:
        in_step[view] = 0
    for step in range(1, len(steps)):
        largest = np.float32(0.0)
        for view in steps[step]:
            if in_step[view] == step - 1:
                largest = np.float32(1.0)
            for edge in range(offsets[view], offsets[view + 1]):
                if in_step[neighbours[edge]] == step - 1:
                    largest = max(largest, weights[edge])
        out[step - 1] = largest
        for view in steps[step]:
            in_step[view] = step
