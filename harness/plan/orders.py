"""Orders of one workload beside each other, judged on the full graph (D§4, D§12).

Legend: V training views, S steps, B views per step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from odin.plan import Plan
from odin.planner import LocalityGraph, judge_order, random_units
from odin.planner.anneal import ANNEAL_BELOW, PROPOSALS, anneal_epoch, dense_coupling

SEARCH = 4  # times the trades that a plan tries


@dataclass(frozen=True, kw_only=True)
class NamedQuality:
    """How strongly consecutive steps of an order are coupled.

    mean:  over windows, of the largest coupling between a view of one step and one of the next
    clear: share of windows without any coupling
    note:  why there are no numbers (then mean and clear are nan)
    """

    name: str
    mean: float
    clear: float
    note: str = ""


def compare_orders(graph: LocalityGraph, plan: Plan, seed: int) -> Iterator[NamedQuality]:
    """The plan, then capture order, random order and annealing on the same workload.

    graph: over the training views with all its edges; plan: of at least two steps
    """
    yield judged("plan", graph, plan)
    yield judged("capture order", graph, with_units(plan, capture_units(plan)))
    yield judged("random order", graph, random_plan(plan, seed))
    annealed = annealed_units(graph, plan, seed)
    if annealed is None:
        yield NamedQuality(
            name="annealing", mean=np.nan, clear=np.nan, note=f"not searched for {ANNEAL_BELOW} views or more"
        )
    else:
        yield judged("annealing", graph, with_units(plan, annealed))


def judged(name: str, graph: LocalityGraph, plan: Plan) -> NamedQuality:
    """The quality of a plan of at least two steps."""
    quality = judge_order(graph, plan)
    return NamedQuality(name=name, mean=quality.mean, clear=quality.zero_share)


def with_units(plan: Plan, units: NDArray[np.int32]) -> Plan:
    """The same windows over other views; no step is drawn from a region."""
    return replace(plan, units=units, region=np.full(plan.steps, -1, np.int32))


def capture_units(plan: Plan) -> NDArray[np.int32]:
    """Views one after the other as they were taken (by file name), epoch after epoch, int32 [S, W, U]."""
    stream = np.arange(plan.steps * plan.global_batch) % plan.train_count
    return stream.astype(np.int32).reshape(plan.units.shape)


def random_plan(plan: Plan, seed: int) -> Plan:
    """The baseline's order of the same workload."""
    ranks, unit = plan.ranks, plan.views_per_unit
    return with_units(plan, random_units(plan.train_count, ranks, unit, plan.steps, seed))


def annealed_units(graph: LocalityGraph, plan: Plan, seed: int) -> NDArray[np.int32] | None:
    """Units found by a longer search from the plan's order without regions, int32 [S, W, U]: what any order of the
    workload might reach, though no bound. None where all pairs of views are too many to search."""
    views, batch = graph.view_count, plan.global_batch
    if views >= ANNEAL_BELOW:
        return None
    steps = _by_epoch(plan)
    coupling, label = dense_coupling(graph), np.zeros(views, np.int32)
    for epoch in range(-(-plan.steps * batch // views)):
        first, end = -(-epoch * views // batch), min((epoch + 1) * views, plan.steps * batch)
        search = SEARCH * PROPOSALS * views
        until = -(-end // batch)
        anneal_epoch(coupling, label, steps[:until], first, end - first * batch, proposals=search, seed=seed + epoch)
    return steps.astype(np.int32).reshape(plan.units.shape)


def _by_epoch(plan: Plan) -> NDArray[np.int64]:
    """Views of every step, int64 [S, B]; in a step that an epoch ends in, those of that epoch first."""
    steps = plan.units.reshape(plan.steps, plan.global_batch).astype(np.int64)
    seen = np.zeros(plan.train_count, np.bool_)
    for row in steps:
        row[:] = row[np.argsort(seen[row], kind="stable")]
        left = int((~seen).sum())
        seen[row[:left]] = True
        if seen.all():
            seen[:] = False
            seen[row[left:]] = True
    return steps
