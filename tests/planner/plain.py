"""SDS the slow way: every step scores and sorts every view. Twin of `schedule_steps` without annealing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from odin.planner import LocalityGraph, epoch_order, partition, region_coupling
from odin.planner.stream import seeded


def dense(graph: LocalityGraph) -> NDArray[np.float64]:
    """Weights [V, V] with 1 on the diagonal: a view couples fully with itself."""
    matrix = np.eye(graph.view_count)
    matrix[np.repeat(np.arange(graph.view_count), graph.degree), graph.neighbours] = graph.weights
    return matrix


def plain_steps(
    graph: LocalityGraph, centres: NDArray[np.float64], *, regions: int, batch: int, steps: int, seed: int
) -> tuple[list[list[int]], list[int]]:
    """Views of each step in ascending order, and the region it was drawn from."""
    count, weight = len(centres), dense(graph)
    label = partition(centres, regions)
    coupling = region_coupling(graph, label, regions)
    among_equals = seeded(seed).permutation(regions)
    visits, turns = np.zeros(count, int), np.zeros(regions, int)
    views: list[list[int]] = []
    chosen: list[int] = []
    for step in range(steps):
        epoch = step * batch // count
        if step == 0 or epoch != (step - 1) * batch // count:
            turns[:] = 0
        place = np.argsort(epoch_order(count, seed, epoch))
        left = visits == epoch
        stock = np.bincount(label[left], minlength=regions)
        able = stock >= batch if (stock >= batch).any() else stock > 0
        due = [r for r in range(regions) if able[r] and turns[r] == turns[able].min()]
        if chosen:
            due = [r for r in due if r != chosen[-1]] or due
            region = min(due, key=lambda r: (coupling[chosen[-1], r], among_equals[r]))
        else:
            region = min(due, key=lambda r: among_equals[r])
        strength = coupling[region].copy()
        strength[region] = np.inf
        source = sorted(range(regions), key=lambda r: (-strength[r], among_equals[r]))
        score = weight[:, views[-1]].sum(axis=1) if views else np.zeros(count)
        claim = {v: (not left[v], source.index(label[v]), score[v], place[v]) for v in range(count)}
        pool = range(count) if stock[region] < batch else np.flatnonzero(left & (label == region)).tolist()
        taken = sorted(pool, key=claim.__getitem__)[:batch]
        views.append(sorted(taken))
        chosen.append(region)
        visits[taken] += 1
        turns[region] += 1
    return views, chosen
