"""The ahead-of-time planner: tracks and cameras in, one immutable `Plan` out (§4.1–4.2)."""

from odin.planner.build import build_plan
from odin.planner.frustum import Frusta, frustum_graph
from odin.planner.partition import partition, region_coupling
from odin.planner.quality import OrderQuality, judge_order, order_quality
from odin.planner.rlg import LocalityGraph, graph_from_pairs, locality_graph
from odin.planner.schedule import StepOrder, blocking_flags, schedule_steps
from odin.planner.scopes import Activity, computation_graph, geometry_graph, importance_graph
from odin.planner.settings import SETTINGS, GraphSetting, graph_setting
from odin.planner.stream import epoch_order, random_units

__all__ = [
    "SETTINGS",
    "Activity",
    "Frusta",
    "GraphSetting",
    "LocalityGraph",
    "OrderQuality",
    "StepOrder",
    "blocking_flags",
    "build_plan",
    "computation_graph",
    "epoch_order",
    "frustum_graph",
    "geometry_graph",
    "graph_from_pairs",
    "graph_setting",
    "importance_graph",
    "judge_order",
    "locality_graph",
    "order_quality",
    "partition",
    "random_units",
    "region_coupling",
    "schedule_steps",
]
