"""From tracks and camera centres to a `Plan`, with a record of how it was made (§4.1–4.2).

Legend: V training views, K regions, S steps, W ranks, U views per unit, B = W·U.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from odin.errors import InputError
from odin.plan import Plan
from odin.planner.anneal import ANNEAL_BELOW, PROPOSALS
from odin.planner.frustum import Frusta, frustum_graph
from odin.planner.rlg import LocalityGraph, graph_from_pairs, locality_graph
from odin.planner.rows import default_threads, observations_per_view
from odin.planner.schedule import StepOrder, blocking_flags, schedule_steps
from odin.planner.settings import graph_setting
from odin.planner.stream import check_batch, crosses_epoch, random_units
from odin.tracks import Tracks

ORDERS = ("plan", "regions", "random")
Record = dict[str, str | int | float]


def build_plan(
    *,
    tracks: Tracks,
    centres: NDArray[np.float64],
    order: str,
    ranks: int,
    views_per_unit: int,
    steps: int,
    regions: int = 4,
    seed: int,
    structural_after: NDArray[np.bool_] | None = None,
    frusta: Frusta | None = None,
    setting: str = "default",
    threads: int | None = None,
    anneal: bool | None = None,
) -> Plan:
    """Plan `steps` steps over the training views.

    tracks:  of the training views only (`Tracks.restrict`)
    centres: float64 [V, 3], their camera centres in world units
    order:   "plan" (SDS over regions), "regions" (the same regions in random order) or "random" (the baseline's
             stream of permutations)
    regions: K asked for; lowered to floor(V / B), and below 2 the order is random. Provenance says so.
    seed:    chooses permutations, tie-breaks and the first region
    structural_after: bool [S], a structural event falls on the boundary after step s; None: no events
    frusta:  used for the coupling when there are no tracks at all
    setting: how much of the tracks the coupling is made from, one of `settings.SETTINGS`
    threads: as in `locality_graph`; the plan does not depend on it
    anneal:  improve the order "plan" by search, on all edges of the graph; None: below `ANNEAL_BELOW` views

    Provenance: order, order_used, order_note, regions_asked, regions_used (0: none), seed, graph, setting,
    track_cap, observations, top_k (0: all) and edges where a graph was built, proposals (per view and epoch),
    views_without_tracks, mixed_steps, sas and planner_seconds. None of it enters the digest.

    Raises InputError if B > V, a count is out of range, or the inputs do not belong together.
    """
    started = perf_counter()
    _check(tracks, centres, order, regions, frusta)
    check_batch(tracks.view_count, ranks, views_per_unit, steps)
    shape = {"ranks": ranks, "views_per_unit": views_per_unit, "steps": steps, "seed": seed}
    threads = threads or default_threads(tracks)
    seen = observations_per_view(tracks, threads)
    used, note = usable_regions(regions, tracks.view_count, ranks * views_per_unit)
    if order == "random":
        used, note = 0, "asked for"
    made: Record
    if used >= 2:
        search = order == "plan" and (tracks.view_count < ANNEAL_BELOW if anneal is None else anneal)
        proposals = PROPOSALS if search else 0
        graph, made = _coupling_graph(tracks, seen, frusta, setting, threads, every_edge=search)
        made["proposals"] = proposals
        taken = schedule_steps(graph, centres, regions=used, shuffled=order == "regions", proposals=proposals, **shape)
    else:
        used, made = 0, {"graph": "not built" if len(tracks.views) else "not built: no tracks"}
        taken = _random_steps(tracks.view_count, **shape)
    return Plan(
        units=taken.units,
        region=taken.region,
        mixed=taken.mixed,
        blocking=blocking_flags(steps, structural_after=structural_after),
        train_count=tracks.view_count,
        provenance={
            "order": order,
            "order_used": order if used else "random",
            "order_note": note,
            "regions_asked": regions,
            "regions_used": used,
            "seed": seed,
            **made,
            "views_without_tracks": int((seen == 0).sum()),
            "mixed_steps": int(taken.mixed.sum()),
            "sas": "structural events only; memory and gain not evaluated",
            "planner_seconds": perf_counter() - started,
        },
    )


def usable_regions(asked: int, train_count: int, batch: int) -> tuple[int, str]:
    """K such that a region can fill a step, and why it differs from what was asked ("" if it does not).

    A K below 2 means that there is nothing to rotate over: the order is random.
    """
    used = min(asked, train_count // batch)
    note = "" if used == asked else f"K {asked} → {used}: {train_count} views, {batch} per step"
    return used, note if used >= 2 else f"{note or f'K = {used}'}; below 2 regions the order is random"


def _coupling_graph(
    tracks: Tracks,
    seen: NDArray[np.int64],
    frusta: Frusta | None,
    name: str,
    threads: int,
    *,
    every_edge: bool,
) -> tuple[LocalityGraph, Record]:
    """The graph to schedule on, and its part of the provenance.

    every_edge: keep the edges that top-k would drop; a search that does not see them would walk into them
    """
    count = tracks.view_count
    setting = graph_setting(name, count)
    if every_edge:
        setting = replace(setting, top_k=None)
    used: Record = {"setting": name, **{key: value or 0 for key, value in asdict(setting).items()}}
    if len(tracks.views):
        graph, kind = locality_graph(tracks, threads=threads, seen=seen, **asdict(setting)), "tracks: Jaccard"
    elif frusta is not None:
        graph, kind = frustum_graph(frusta, top_k=setting.top_k), "no tracks: frustum overlap"
    else:
        none = np.zeros(0, np.int64)
        graph, kind = graph_from_pairs(none, none, np.zeros(0), view_count=count), "no tracks: no coupling known"
    return graph, {"graph": kind, **used, "edges": len(graph.neighbours) // 2}


def _random_steps(train_count: int, *, ranks: int, views_per_unit: int, steps: int, seed: int) -> StepOrder:
    """The random stream with the flags a plan needs: no regions, mixed where two epochs meet."""
    return StepOrder(
        units=random_units(train_count, ranks, views_per_unit, steps, seed),
        region=np.full(steps, -1, np.int32),
        mixed=crosses_epoch(train_count, ranks * views_per_unit, steps),
    )


def _check(
    tracks: Tracks,
    centres: NDArray[np.float64],
    order: str,
    regions: int,
    frusta: Frusta | None,
) -> None:
    """Raise InputError where the inputs do not belong together."""
    count = tracks.view_count
    if order not in ORDERS:
        raise InputError(f"The order is {order!r}; use one of {', '.join(ORDERS)}.")
    if regions < 1:
        raise InputError(f"regions={regions}; use 1 or more.")
    if centres.shape != (count, 3):
        raise InputError(
            f"The tracks are over {count} views, the camera centres have shape {centres.shape}; expected "
            f"({count}, 3). Restrict the tracks to the training views first."
        )
    if frusta is not None and len(frusta.centres) != count:
        raise InputError(f"There are {len(frusta.centres)} frusta for {count} training views.")
