"""From a plan to its two pictures: the schedule and the coupling.

Legend: S steps, W ranks, U views per unit, V training views, N rows of the initial model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.plan.conflicts import Conflict
from harness.plan.coupling_figure import draw_coupling
from harness.plan.drawing import save
from harness.plan.durations import FRONT, Durations, views_of
from harness.plan.schedule_figure import Lane, draw_schedule
from odin.plan import Plan
from odin.planner import LocalityGraph
from odin.planner.parallelism import DATA_PARALLEL
from odin.planner.timing import LINK, Key, Seconds, unroll

SHOWN_STEPS = 6
_COMPUTE = frozenset(task.name for task in FRONT)


@dataclass(frozen=True, kw_only=True)
class Pictured:
    """What the pictures show of a plan.

    random:    the baseline's order of the same workload
    label:     int32 [V], region of every view; empty where there are none
    across:    order → float64 [S-1], largest coupling across each window
    conflicts: step → conflicts of the window after it, where they were computed
    view_rows: int64 [V], rows in the scope of every view of the initial model
    """

    name: str
    plan: Plan
    random: Plan
    label: NDArray[np.int32]
    graph: LocalityGraph
    across: Mapping[str, NDArray[np.float64]]
    durations: Durations
    conflicts: Mapping[int, Conflict]
    view_rows: NDArray[np.int64]


def write_pictures(shown: Pictured, folder: Path) -> list[Path]:
    """Write schedule and coupling as PDF, PNG and caption; the paths without captions. Raises RunError."""
    prices, plan = shown.durations, shown.plan
    panels = [_before(shown), _after(shown)]
    regions = len(np.unique(shown.label))
    schedule = draw_schedule(panels, unit=prices.unit, scale=prices.scale, regions=regions)
    coupling = draw_coupling(shown.graph, first_visits(plan), plan.global_batch, shown.across)
    return [
        *save(schedule, folder, "schedule", _schedule_caption(shown, panels)),
        *save(coupling, folder, "coupling", _coupling_caption(shown)),
    ]


def first_visits(plan: Plan) -> NDArray[np.int64]:
    """Views in the order in which the plan first trains them, int64; without those it never trains."""
    stream = plan.units.reshape(-1)
    views, first = np.unique(stream, return_index=True)
    return views[np.argsort(first)].astype(np.int64)


def _before(shown: Pictured) -> Lane:
    """The first steps in random order, with a barrier after each."""
    steps = min(SHOWN_STEPS, shown.random.steps)
    seconds = {**shown.durations.of_blocking_step(), "scopes": 0.0}  # the baseline needs none
    return _lane(
        shown, shown.random, np.zeros(steps - 1, np.bool_), [seconds] * steps, "random order, a barrier per step"
    )


def _after(shown: Pictured) -> Lane:
    """The plan's first steps, with its windows."""
    steps = min(SHOWN_STEPS, shown.plan.steps)
    candidate = shown.plan.blocking[: steps - 1] == 0
    seconds = [
        shown.conflicts[step].seconds(shown.durations)
        if step < steps - 1 and candidate[step] and step in shown.conflicts
        else shown.durations.of_blocking_step()
        for step in range(steps)
    ]
    open_ = f"{int(candidate.sum())} of {steps - 1} windows are candidates"
    return _lane(shown, shown.plan, candidate, seconds, f"planned order, {open_}")


def _lane(
    shown: Pictured,
    plan: Plan,
    candidate: NDArray[np.bool_],
    seconds: Sequence[Mapping[str, float]],
    title: str,
) -> Lane:
    steps, prices = len(seconds), shown.durations
    placed = unroll(DATA_PARALLEL, candidate, plan.ranks).place(_of_units(shown, plan, seconds))
    took = max(task.end for task in placed) / steps * prices.scale
    label = shown.label if len(shown.label) else np.full(plan.train_count, -1, np.int32)
    return Lane(
        title=f"{title}: {took:.3g} ms per step, predicted" if prices.priced else title,
        tasks=placed,
        region=label[plan.units[:steps]],
    )


def _of_units(shown: Pictured, plan: Plan, seconds: Sequence[Mapping[str, float]]) -> Seconds:
    """Durations by task; with prices, compute also by the rows in scope of the very views."""
    rows = shown.view_rows[plan.units[: len(seconds)]] * (plan.views_per_unit / shown.durations.unit_rows)

    def of(key: Key) -> float:
        step, rank, name = key
        mean = seconds[step].get(name, 0.0)
        if not mean or not shown.durations.priced or rank == LINK or name not in _COMPUTE:
            return mean
        return mean * float(rows[step, rank, views_of(name, plan.views_per_unit)].mean())

    return of


def _schedule_caption(shown: Pictured, panels: Sequence[Lane]) -> str:
    skew = " Compute of a view is proportional to the rows in its scope." if shown.durations.priced else ""
    return (
        f"{shown.name}: the first {len(panels[0].region)} steps (numbers) in random order with a barrier after each, "
        "and as planned. Computed on the phase task graph, not run. "
        f"Durations: {shown.durations.source}.{skew} Conflicts from scopes of the initial model. Compute is in the "
        "colour of the view's region: projection of a unit's views (light, one above the other), then view by view, "
        "the last one cut into render and the two parts of backward. The last step shown ends with a barrier."
    )


def _coupling_caption(shown: Pictured) -> str:
    kind = shown.plan.provenance["graph"]
    return (
        f"{shown.name}: coupling of {shown.graph.view_count} training views ({kind}; all edges), in capture order and "
        f"in the order in which the plan first trains them; below, the first steps of {shown.plan.global_batch} views. "
        "Right: over all windows between consecutive steps, the share whose largest coupling is at most x."
    )
