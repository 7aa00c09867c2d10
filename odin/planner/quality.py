"""How good an order is: the coupling between consecutive steps, judged on the full graph."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from odin.errors import InputError
from odin.plan import Plan
from odin.planner.rlg import LocalityGraph


def order_quality(graph_full: LocalityGraph, plan: Plan) -> float:
    """Mean over consecutive steps of the largest coupling between them; lower is better.

    graph_full: over the training views with all its edges (`locality_graph(tracks, top_k=None)`). The graph
                that the planner keeps would flatter its own order (D§12).

    Raises InputError for a plan of fewer than two steps, which has no windows, or of other views.
    """
    if plan.steps < 2:
        raise InputError(f"The order of {plan.steps} step(s) has no windows to judge; plan at least 2 steps.")
    if graph_full.view_count != plan.train_count:
        raise InputError(
            f"The graph is over {graph_full.view_count} views, the plan over {plan.train_count}. "
            "Build the graph from the tracks of the training views."
        )
    steps = [plan.views(step) for step in range(plan.steps)]
    return float(np.mean([step_coupling(graph_full, a, b) for a, b in pairwise(steps)]))


def step_coupling(graph: LocalityGraph, first: NDArray[np.integer], second: NDArray[np.integer]) -> float:
    """Largest coupling between a view of one step and one of another; 1 if they share a view (§4.1.1)."""
    if np.isin(first, second).any():
        return 1.0
    neighbours, weights = graph.edges_of(first)
    return float(weights[np.isin(neighbours, second)].max(initial=0.0))
