"""Everything that is decided and predicted about a capture before it is trained.

Legend: V training views, S steps, N rows of the initial model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.plan.capture import TrainingViews
from harness.plan.conflicts import Conflict, conflicts, view_rows
from harness.plan.durations import Durations, durations
from harness.plan.orders import NamedQuality, compare_orders
from harness.progress import Progress
from harness.run.windows import at_every_window, live_bytes
from harness.run.workload import Workload
from odin.arms import arm
from odin.plan import Plan
from odin.planner import LocalityGraph, partition
from odin.planner.parallelism import DATA_PARALLEL
from odin.planner.sas import Evidence, window_couplings, with_windows
from odin.planner.timing import step_seconds
from pipelines.reference.threedgs import GaussianSplatting

PLANNED = "barrier-planned"  # every planned arm has its order


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A plan with the grounds it stands on.

    label:     int32 [V], region of every view; empty where the order has no regions
    couplings: float64 [S-1], largest coupling across each window, on the full graph
    columns:   column groups and their widths
    live_bytes: what overlap keeps alive beyond a synchronized trainer's state, at most; memory_budget: what it may,
                None is no limit
    blocking_s, candidate_s: predicted seconds per step, candidates with the mean window's conflicts
    """

    name: str
    plan: Plan
    label: NDArray[np.int32]
    graph: LocalityGraph
    qualities: tuple[NamedQuality, ...]
    couplings: NDArray[np.float64]
    durations: Durations
    conflicts: tuple[Conflict, ...]
    view_rows: NDArray[np.int64]
    columns: tuple[tuple[str, int], ...]
    live_bytes: int
    memory_budget: int | None
    blocking_s: float
    candidate_s: float


def make(
    workload: Workload,
    views: TrainingViews,
    profile: Path | None,
    tell: Callable[[str], None] = lambda line: None,
) -> Planned:
    """Plan a workload and predict what its windows wait for.

    profile: prices of phases (`harness.plan.durations`), or None; tell: called with a line at the start of each stage

    Raises InputError for what cannot be planned.
    """
    config = workload.config
    tell("planning")
    plan = workload.plan_for(arm(PLANNED), workload.settings, config.scale.steps)
    used = int(plan.provenance["regions_used"])
    graph = views.full_graph()
    recipe = workload.recipe()
    tell(f"scopes of {plan.train_count} views on {len(recipe.table)} rows")
    rows_of_views = view_rows(recipe)
    prices = durations(recipe, config, rows_of_views, profile)
    found = _conflicts(recipe, plan, prices)
    blocking_s = step_seconds(DATA_PARALLEL, prices.of_blocking_step(), candidate=False)
    candidate = [step_seconds(DATA_PARALLEL, c.seconds(prices), candidate=True) for c in found]
    couplings = window_couplings(graph, plan)
    live = live_bytes(recipe.table, plan)
    evidence = Evidence(
        live_bytes=at_every_window(plan, live),
        memory_budget=config.study.memory_bytes,
        gain=_gains(plan, found, _saved(prices, blocking_s, candidate)) if prices.priced else None,
        coupling=couplings,
        coupling_limit=config.study.largest_coupling,
    )
    return Planned(
        name=workload.capture.name,
        plan=with_windows(plan, evidence),
        label=partition(views.centres, used) if used else np.empty(0, np.int32),
        graph=graph,
        qualities=tuple(compare_orders(graph, plan, config.seed)) if plan.steps > 1 else (),
        couplings=couplings,
        durations=prices,
        conflicts=tuple(found),
        view_rows=rows_of_views,
        columns=tuple((group.name, group.width) for group in recipe.table.layout.groups),
        live_bytes=live,
        memory_budget=config.study.memory_bytes,
        blocking_s=blocking_s,
        candidate_s=float(np.mean(candidate)) if candidate else blocking_s,
    )


def _conflicts(recipe: GaussianSplatting, plan: Plan, prices: Durations) -> list[Conflict]:
    found: list[Conflict] = []
    total = int((plan.blocking == 0).sum())
    with Progress(total, "conflicts of windows") as progress:
        for conflict in conflicts(recipe, plan, prices.budget()):
            found.append(conflict)
            progress.update(conflict.step + 1 if len(found) < total else total)
        progress.update(total)
    return found


def _saved(prices: Durations, blocking_s: float, candidate: Sequence[float]) -> NDArray[np.float64]:
    """Seconds per step that windows save; without a transfer there is nothing to hide."""
    return (blocking_s - np.array(candidate)) * prices.link.shaped


def _gains(plan: Plan, found: Sequence[Conflict], gain: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds that every window saves, [S-1]; of windows that were not looked at, the nearest one's that was, and inf
    where a window is blocking already: nothing is predicted there."""
    gains = np.full(plan.steps - 1, np.inf)
    candidate = np.flatnonzero(plan.blocking == 0)
    if found:
        looked_at = np.array([conflict.step for conflict in found])
        # Between two of them the border is half way.
        gains[candidate] = gain[np.searchsorted((looked_at[1:] + looked_at[:-1]) / 2, candidate)]
    return gains
