"""What SAS weighs before training: which windows of a plan stay blocking beside those of structural events (D§4).

Memory and coupling are functions of the capture and the configuration, so every rank, engine and machine gets the same
windows. The gain that a profile predicts is not: it may come from a warm-up on this machine, and what is trained must
not depend on it (D§6). `odin-bench plan` shows it beside these.

Legend: S steps, V training views.
"""

from __future__ import annotations

import numpy as np

from odin.memory import Sizes, shadow_memory
from odin.plan import Plan
from odin.planner import Frusta, LocalityGraph, frustum_graph, locality_graph
from odin.table import ParameterTable
from odin.tracks import Tracks


def live_bytes(table: ParameterTable, plan: Plan) -> int:
    """What overlap keeps alive beyond a synchronized trainer's state, at most, for a table of so many rows: the same at
    every window, because slots and bitmaps stay. Rows are those of the initial model; densification is not foreseen."""
    layout = table.layout
    sizes = Sizes(rows=len(table), columns=layout.columns, groups=len(layout.groups), batch=plan.global_batch)
    return shadow_memory(sizes).extra


def at_every_window(plan: Plan, nbytes: int) -> np.ndarray:
    """The same bytes at every window, int64 [S-1]."""
    return np.full(plan.steps - 1, nbytes, np.int64)


def full_graph(tracks: Tracks, frusta: Frusta) -> LocalityGraph:
    """The coupling of training views with all its edges, by tracks or, where there are none, by frusta."""
    if len(tracks.views):
        return locality_graph(tracks, top_k=None)
    return frustum_graph(frusta, top_k=None)
