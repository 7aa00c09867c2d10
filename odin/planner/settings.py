"""How much of the tracks the graph is made from: the planner's named settings (D§12)."""

from __future__ import annotations

from dataclasses import dataclass

from odin.errors import InputError

# Above this many views long tracks are capped and observations sampled; below, everything counts.
UNCAPPED_VIEWS = 2000
LONG_TRACK = 16
OBSERVATIONS = 256
TOP_K = 64
FEW_NEIGHBOURS = 16


@dataclass(frozen=True, kw_only=True)
class GraphSetting:
    """Arguments of `locality_graph` of the same names.

    track_cap:    views kept of a longer track; None: all
    observations: observations drawn per view, in the mean; None: all
    top_k:        neighbours kept per view; None: all
    """

    track_cap: int | None
    observations: int | None
    top_k: int | None


ALL = GraphSetting(track_cap=None, observations=None, top_k=TOP_K)
SAMPLED = GraphSetting(track_cap=LONG_TRACK, observations=OBSERVATIONS, top_k=FEW_NEIGHBOURS)
SETTINGS = ("all_cap64", "all_cap16", "default")


def graph_setting(name: str, view_count: int) -> GraphSetting:
    """The setting `name`, one of `SETTINGS`, for so many views.

    `all_cap64` and `all_cap16` use all observations of tracks capped at 64 and 16 views. `default` samples above
    `UNCAPPED_VIEWS` views, where the order no longer depends on it, and uses everything below.

    Raises InputError for another name.
    """
    few = TOP_K if view_count <= UNCAPPED_VIEWS else FEW_NEIGHBOURS
    if name == "all_cap64":
        return GraphSetting(track_cap=64, observations=None, top_k=few)
    if name == "all_cap16":
        return GraphSetting(track_cap=16, observations=None, top_k=few)
    if name == "default":
        return ALL if view_count <= UNCAPPED_VIEWS else SAMPLED
    raise InputError(f"The planner has no setting {name!r}; use one of {', '.join(SETTINGS)}.")
