"""How good an order is: the coupling between consecutive steps, judged on the full graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odin.errors import InputError
from odin.plan import Plan
from odin.planner.rlg import LocalityGraph
from odin.planner.sds_kernels import step_couplings


@dataclass(frozen=True, kw_only=True)
class OrderQuality:
    """Coupling of consecutive steps: mean of the largest (lower is better), and the share of windows without any."""

    mean: float
    zero_share: float


def judge_order(graph_full: LocalityGraph, plan: Plan) -> OrderQuality:
    """Judge an order on the graph over the training views with all its edges (`top_k=None`).

    The graph that a large plan keeps would flatter its own order (D§12).
    Raises InputError for a plan of fewer than two steps, which has no windows, or of other views.
    """
    if plan.steps < 2:
        raise InputError(f"The order of {plan.steps} step(s) has no windows to judge; plan at least 2 steps.")
    if graph_full.view_count != plan.train_count:
        raise InputError(
            f"The graph is over {graph_full.view_count} views, the plan over {plan.train_count}. "
            "Build the graph from the tracks of the training views."
        )
    largest = np.empty(plan.steps - 1)
    steps = plan.units.reshape(plan.steps, -1).astype(np.int64)
    step_couplings(graph_full.offsets, graph_full.neighbours, graph_full.weights, steps, largest)
    return OrderQuality(mean=float(largest.mean()), zero_share=float((largest == 0).mean()))


def order_quality(graph_full: LocalityGraph, plan: Plan) -> float:
    """The mean of `judge_order`."""
    return judge_order(graph_full, plan).mean


def step_coupling(graph: LocalityGraph, first: NDArray[np.integer], second: NDArray[np.integer]) -> float:
    """Largest coupling between a view of one step and one of another; 1 if they share a view (§4.1.1)."""
    if np.isin(first, second).any():
        return 1.0
    neighbours, weights = graph.edges_of(first)
    return float(weights[np.isin(neighbours, second)].max(initial=0.0))
