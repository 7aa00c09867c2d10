"""Annealing of one epoch's steps: views of one region trade places (D§12, below about 1,000 views).

The objective is the one orders are judged by: the sum over consecutive steps of the largest coupling between them.
A trade keeps the number of views of each region in each step, so the plan's rules hold as before. Acceptance draws a
threshold instead of an exponential, so that every machine makes the same plan bit for bit.

Legend: V views, S steps of the stream, B views per step.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from odin.planner.rlg import LocalityGraph
from odin.planner.row_kernels import mix

ANNEAL_BELOW = 1000  # views; the coupling of all pairs is then at most 4 MB
PROPOSALS = 500  # per view and epoch

# Start at a share of the mean transition, cool to 0, and only descend at the end.
_HEAT, _COOLED = 0.5, 0.85
_S32, _MASK = np.uint64(32), np.uint64(0xFFFFFFFF)


def dense_coupling(graph: LocalityGraph) -> NDArray[np.float32]:
    """All weights, float32 [V, V]; a view couples with itself by 1."""
    matrix = np.eye(graph.view_count, dtype=np.float32)
    matrix[np.repeat(np.arange(graph.view_count), graph.degree), graph.neighbours] = graph.weights
    return matrix


def anneal_epoch(
    coupling: NDArray[np.float32],
    label: NDArray[np.int32],
    steps: NDArray[np.int64],
    first: int,
    movable: int,
    *,
    proposals: int,
    seed: int,
) -> None:
    """Reorder in place the views of steps[first:], int64 [S, B], that belong to one epoch.

    coupling: of all pairs (`dense_coupling`)
    label:    int32 [V], only views of equal label trade places
    movable:  how many views from steps[first] on, in order; those after them belong to the next epoch and stay
    proposals: trades to try
    seed:     of the draws

    The step before `first` counts but stays. Nothing changes where no better order was found.
    """
    if movable < 2 or proposals < 1:
        return
    cells = np.arange(movable)
    labels = label[steps[first:].reshape(-1)[:movable]]
    by_label = cells[np.argsort(labels, kind="stable")]
    ordered = labels[by_label]
    lo, hi = np.searchsorted(ordered, labels, "left"), np.searchsorted(ordered, labels, "right")
    before = steps[first - 1] if first else steps[:0].reshape(-1)
    _anneal(coupling, before, steps[first:], movable, by_label, lo, hi, proposals, seed)


@njit(nogil=True, cache=True)
def _nearest(coupling: NDArray, view: int, row: NDArray) -> np.float32:  # pragma: no cover - compiled
    best, mine = np.float32(0.0), coupling[view]
    for other in row:
        best = max(best, mine[other])
    return best


@njit(nogil=True, cache=True)
def _refresh(coupling: NDArray, before: NDArray, steps: NDArray, s: int, back: NDArray, ahead: NDArray) -> None:
    """What each view of step s couples with at most in the step before (back) and the step after (ahead)."""
    for at in range(steps.shape[1]):
        if s > 0:
            back[s, at] = _nearest(coupling, steps[s, at], steps[s - 1])
        elif len(before):
            back[s, at] = _nearest(coupling, steps[s, at], before)
        if s + 1 < len(steps):
            ahead[s, at] = _nearest(coupling, steps[s, at], steps[s + 1])


@njit(nogil=True, cache=True)
def _without(values: NDArray, at: int) -> np.float32:  # pragma: no cover - compiled
    """Largest of values [B], none below 0, but the one at `at`; -1: of all."""
    best = np.float32(0.0)
    for other in range(len(values)):
        if other != at:
            best = max(best, values[other])
    return best


@njit(nogil=True, cache=True)
def _change(
    coupling: NDArray, before: NDArray, steps: NDArray, s: int, at: int, view: int, back: NDArray, ahead: NDArray
) -> float:  # pragma: no cover - compiled
    """Change of the objective when `view` takes the place `at` of step s."""
    change = 0.0
    if s > 0:
        change += max(_without(back[s], at), _nearest(coupling, view, steps[s - 1])) - _without(back[s], -1)
    elif len(before):
        change += max(_without(back[s], at), _nearest(coupling, view, before)) - _without(back[s], -1)
    if s + 1 < len(steps):
        change += max(_without(ahead[s], at), _nearest(coupling, view, steps[s + 1])) - _without(ahead[s], -1)
    return change


@njit(nogil=True, cache=True)
def _around(coupling: NDArray, before: NDArray, steps: NDArray, s: int) -> float:  # pragma: no cover - compiled
    """Transitions into s, from s to s+1 and out of s+1, in full."""
    total = 0.0
    for step in range(s, min(s + 3, len(steps))):
        worst = np.float32(0.0)
        for view in steps[step]:
            if step > 0:
                worst = max(worst, _nearest(coupling, view, steps[step - 1]))
            elif len(before):
                worst = max(worst, _nearest(coupling, view, before))
        total += worst
    return total


@njit(nogil=True, cache=True)
def _clashes(steps: NDArray, s: int, movable: int, view: int) -> bool:  # pragma: no cover - compiled
    """Whether step s already trains `view` in the next epoch."""
    batch = steps.shape[1]
    found = False
    for at in range(max(movable - s * batch, 0), batch):
        found |= steps[s, at] == view
    return found


@njit(nogil=True, cache=True)
def _anneal(
    coupling: NDArray, before: NDArray, steps: NDArray, movable: int, by_label: NDArray, lo: NDArray, hi: NDArray,
    proposals: int, seed: int,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    batch, count = steps.shape[1], len(steps)
    back, ahead = np.zeros((count, batch), np.float32), np.zeros((count, batch), np.float32)
    total = 0.0
    for s in range(count):
        _refresh(coupling, before, steps, s, back, ahead)
        total += _without(back[s], -1)
    original, gained = steps.copy(), 0.0
    heat, state = _HEAT * total / count, mix(seed)
    for turn in range(proposals):
        state = mix(state)
        one = np.int64(((state >> _S32) * np.uint64(movable)) >> _S32)
        two = by_label[lo[one] + np.int64(((state & _MASK) * np.uint64(hi[one] - lo[one])) >> _S32)]
        s, t = one // batch, two // batch
        if s == t:
            continue
        a, b = one - s * batch, two - t * batch
        x, y = steps[s, a], steps[t, b]
        if _clashes(steps, s, movable, y) or _clashes(steps, t, movable, x):
            continue
        near = abs(s - t) == 1
        if near:
            change = -_around(coupling, before, steps, min(s, t))
            steps[s, a], steps[t, b] = y, x
            change += _around(coupling, before, steps, min(s, t))
        else:
            change = _change(coupling, before, steps, s, a, y, back, ahead)
            change += _change(coupling, before, steps, t, b, x, back, ahead)
        state = mix(state)
        limit = heat * (1.0 - turn / (_COOLED * proposals)) * np.float64(state >> _S32) * 2.0**-31
        if change > max(limit, 0.0):
            if near:
                steps[s, a], steps[t, b] = x, y
            continue
        steps[s, a], steps[t, b] = y, x
        gained -= change
        for centre in (s, t):
            for step in range(max(centre - 1, 0), min(centre + 2, count)):
                _refresh(coupling, before, steps, step, back, ahead)
    if gained < 0.0:
        for s in range(count):  # as one assignment it would be a tenth of all compilation in this package
            for at in range(batch):
                steps[s, at] = original[s, at]
