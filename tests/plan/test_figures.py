"""The two pictures: what they draw, from data made for the purpose."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.patches import Rectangle

from harness.plan.coupling_figure import coupling_matrix, draw_coupling
from harness.plan.drawing import save
from harness.plan.schedule_figure import MOST_RANKS, Lane, draw_schedule
from odin.planner import LocalityGraph, graph_from_pairs, locality_graph
from odin.planner.parallelism import DATA_PARALLEL
from odin.planner.timing import unroll
from tests.planner.captures import ring


def lane(ranks: int, windows: list[bool], regions: int = 3) -> Lane:
    placed = unroll(DATA_PARALLEL, np.array(windows, bool), ranks).place(lambda key: 1.0)
    steps = len(windows) + 1
    region = np.arange(steps * ranks * 2).reshape(steps, ranks, 2) % regions
    return Lane(title="a panel", tasks=placed, region=region.astype(np.int32))


@pytest.mark.parametrize(("ranks", "shown"), [(1, 1), (4, 4), (12, MOST_RANKS)])
def test_every_view_and_task_is_drawn(ranks: int, shown: int) -> None:
    panels = [lane(ranks, [False] * 2), lane(ranks, [True] * 2)]
    figure = draw_schedule(panels, unit="units", scale=1.0, regions=3)
    for axes, panel in zip(figure.axes, panels, strict=True):
        blocks = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
        tasks = [t for t in panel.tasks if t.rank < shown]
        assert len(blocks) == sum(2 if t.name == "project" else 1 for t in tasks)  # of both views of a unit
        assert [label.get_text() for label in axes.get_yticklabels()] == [*(f"rank {r}" for r in range(shown)), "link"]


def test_tasks_without_duration_are_left_out() -> None:
    placed = unroll(DATA_PARALLEL, np.zeros(0, bool), 1).place(lambda key: 1.0 if key[2] == "update" else 0.0)
    figure = draw_schedule([Lane(title="", tasks=placed, region=np.zeros((1, 1, 2), np.int32))], unit="ms", scale=1e3,
                           regions=0)  # fmt: skip
    assert len(figure.axes[0].patches) == 1


@settings(deadline=None)
@given(st.permutations(range(7)), st.integers(1, 9), st.integers(1, 7))
def test_the_matrix_is_the_graph_in_that_order(order: list[int], cells: int, count: int) -> None:
    graph = locality_graph(ring(7)[0], top_k=None)
    some = np.array(order[:count])
    matrix = coupling_matrix(graph, some, cells)
    size = min(cells, count)
    expected = np.zeros((size, size))
    for i, a in enumerate(some):
        for j, b in enumerate(some):
            neighbours, weights = graph.edges_of([a])
            weight = weights[neighbours == b].max(initial=0.0)
            at = i * size // count, j * size // count
            expected[at] = max(expected[at], weight)
    if count <= cells:
        np.fill_diagonal(expected, np.nan)
    np.testing.assert_array_equal(matrix, expected.astype(np.float32))


def empty_graph(count: int) -> LocalityGraph:
    none = np.zeros(0, np.int64)
    return graph_from_pairs(none, none, np.zeros(0), view_count=count)


@pytest.mark.parametrize("graph", [locality_graph(ring(9)[0], top_k=None), empty_graph(9)], ids=["ring", "no edges"])
def test_the_coupling_is_written_twice_alike(graph: LocalityGraph, tmp_path: Path) -> None:
    across = {"plan": np.array([0.0, 0.2]), "random order": np.array([0.1, 1.0])}
    written = []
    for name in ("a", "b"):
        figure = draw_coupling(graph, np.arange(9)[::-1], 2, across)
        paths = save(figure, tmp_path / name, "coupling", "caption")
        written.append([path.read_bytes() for path in paths])
    assert written[0] == written[1]
    assert (tmp_path / "a" / "coupling_caption.txt").read_text() == "caption\n"
