"""`odin.planner.tasks`, `.timing`: graphs without cycles, legal orders as brute force finds them, times."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.errors import InputError
from odin.phases import Category
from odin.planner.parallelism import DATA_PARALLEL, MIXED_PARALLEL, Parallelism
from odin.planner.tasks import Task, TaskGraph, topological
from odin.planner.timing import LINK, step_seconds, unroll

BOTH = pytest.mark.parametrize("parallelism", [DATA_PARALLEL, MIXED_PARALLEL], ids=lambda p: p.name)
STATES = list(itertools.product([False, True], repeat=2))
ORDERS = {
    "data parallel": ("project", "leading views", "render", "colour backward", "geometry backward", "update"),
    "mixed parallel": ("project", "observe", "render", "backward", "publish", "owner backward", "update"),
}


@st.composite
def graphs(draw: st.DrawFn) -> TaskGraph:
    """Up to six tasks; each waits for some of those before it."""
    count = draw(st.integers(1, 6))
    tasks = [
        Task(
            name=str(n),
            after=tuple(draw(st.lists(st.sampled_from([str(m) for m in range(n)]), unique=True)) if n else ()),
        )
        for n in range(count)
    ]
    return TaskGraph(tasks=tuple(draw(st.permutations(tasks))))


def brute_force(graph: TaskGraph) -> set[tuple[str, ...]]:
    """Every permutation in which no task stands before one it waits for."""
    found = set()
    for order in itertools.permutations(t.name for t in graph.tasks):
        if all(order.index(b) < order.index(t.name) for t in graph.tasks for b in t.after):
            found.add(order)
    return found


def count_by_subsets(graph: TaskGraph) -> int:
    """Number of legal orders, counted over sets of finished tasks instead of one by one."""
    names = [t.name for t in graph.tasks]

    @cache
    def left(done: frozenset[str]) -> int:
        ready = [t.name for t in graph.tasks if t.name not in done and set(t.after) <= done]
        return 1 if len(done) == len(names) else sum(left(done | {name}) for name in ready)

    return left(frozenset())


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_legal_orders_are_those_that_brute_force_finds(graph: TaskGraph) -> None:
    orders = list(graph.legal_orders())
    assert len(orders) == len(set(orders))
    assert set(orders) == brute_force(graph)
    every = itertools.permutations(t.name for t in graph.tasks)
    assert {o for o in every if graph.is_legal(o)} == set(orders)


@BOTH
def test_legal_orders_of_a_step(parallelism: Parallelism) -> None:
    graph = parallelism.step(before=False, after=False)
    orders = list(graph.legal_orders())
    assert len(orders) == len(set(orders)) == count_by_subsets(graph)
    assert all(graph.is_legal(order) for order in orders)
    # The order of the paper is among them once what only Odin does is left out.
    names = ORDERS[parallelism.name]
    assert names in {tuple(n for n in order if n in names) for order in orders}


@BOTH
@pytest.mark.parametrize(("before", "after"), STATES)
def test_a_step_has_no_cycle_and_no_legal_order_breaks_an_edge(parallelism, before, after) -> None:
    graph = parallelism.step(before=before, after=after)
    order = topological({t.name: t.after for t in graph.tasks})
    assert graph.is_legal(order)
    for task in graph.tasks:
        for name in task.after:
            swapped = [task.name if n == name else name if n == task.name else n for n in order]
            assert not graph.is_legal(swapped)
    assert not graph.is_legal(order[1:])
    assert not graph.is_legal([*order, order[0]])


@BOTH
@pytest.mark.parametrize(("before", "after"), STATES)
def test_work_is_priced_and_transfers_are_not(parallelism, before, after) -> None:
    for task in parallelism.step(before=before, after=after).tasks:
        assert bool(task.phases) != task.link
        assert all(phase.category in (Category.USEFUL, Category.ODIN) for phase in task.phases)


@BOTH
@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("windows", list(itertools.product([False, True], repeat=3)))
def test_programs_are_legal_and_complete(parallelism, ranks, windows) -> None:
    """Every task of every step runs once on every rank, or once on the link, and after what it waits for."""
    around = [False, *windows, False]
    placed = unroll(parallelism, np.array(windows), ranks).place(lambda key: 1.0 + 0.1 * key[1])
    at = {(t.step, t.rank, t.name): t for t in placed}
    assert len(at) == len(placed)
    for step in range(4):
        graph = parallelism.step(before=around[step], after=around[step + 1])
        names = {(t.name, r) for t in graph.tasks for r in ([LINK] if t.link else range(ranks))}
        assert {(t.name, t.rank) for t in placed if t.step == step} == names
        for task in graph.tasks:
            for rank in [LINK] if task.link else range(ranks):
                for before in task.after:
                    own = [LINK] if graph.by_name[before].link else range(ranks) if rank == LINK else [rank]
                    assert all(at[step, r, before].end <= at[step, rank, task.name].start for r in own)
    for lane in range(-1, ranks):
        row = sorted((t for t in placed if t.rank == lane), key=lambda t: t.start)
        assert all(a.end <= b.start + 1e-9 for a, b in itertools.pairwise(row))


@BOTH
def test_a_blocking_window_waits_for_the_whole_update_and_a_candidate_does_not(parallelism) -> None:
    blocked, opened = (
        {(t.step, t.name): t for t in unroll(parallelism, np.array([w]), 1).place(lambda key: 1.0)}
        for w in (False, True)
    )
    assert blocked[1, "project"].start >= blocked[0, "update"].end
    early, late = ("project", "update rest") if parallelism is DATA_PARALLEL else ("project clear", "update")
    assert opened[1, early].start < opened[0, late].end


def test_a_candidate_reads_nothing_before_its_update() -> None:
    placed = {(t.step, t.name): t for t in unroll(DATA_PARALLEL, np.array([True, True]), 1).place(lambda key: 1.0)}
    for step in (0, 1):
        assert placed[step, "validate"].end <= placed[step, "urgent geometry"].start
        assert placed[step, "update geometry"].end <= placed[step + 1, "project"].start
        assert placed[step, "update colours"].end <= placed[step + 1, "leading views"].start
        assert placed[step, "zero step"].end <= placed[step + 1, "project"].start
    mixed = {(t.step, t.name): t for t in unroll(MIXED_PARALLEL, np.array([True, True]), 1).place(lambda key: 1.0)}
    assert mixed[0, "update"].end <= mixed[1, "project conflict"].start
    assert mixed[1, "observe clear"].start < mixed[0, "publish"].start  # observation goes first on the link


def test_time_of_a_step_by_hand() -> None:
    compute = {"project": 1.0, "render": 3.0, "colour backward": 1.0, "geometry backward": 2.0}
    # Colours travel 4 s from 5, geometry 1 s from 9: the step is 7 s of compute, 3 s of wait, 0.5 s of update.
    barrier = {**compute, "colours": 4.0, "geometry": 1.0, "update": 0.5}
    assert step_seconds(DATA_PARALLEL, barrier, candidate=False) == pytest.approx(10.5)
    # Nobody waits for 5 s of rest, and they fit behind the next step's compute.
    clear = {**compute, "rest": 5.0, "update rest": 0.5}
    assert step_seconds(DATA_PARALLEL, clear, candidate=True) == pytest.approx(7.5)
    # Urgent geometry of 2 s is waited for in full; the update of the rest falls into that wait.
    urgent = {**clear, "rest": 3.0, "urgent geometry": 2.0}
    assert step_seconds(DATA_PARALLEL, urgent, candidate=True) == pytest.approx(9.0)


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ((Task(name="a"), Task(name="a")), "two tasks of one name"),
        ((Task(name="a", after=("b",)),), "'b', which is not in the graph"),
        ((Task(name="a", after=("b",)), Task(name="b", after=("a",))), "wait for each other"),
        ((Task(name="a", after=("a",)),), "wait for each other"),
    ],
)
def test_a_graph_that_is_none_is_refused(tasks: tuple[Task, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TaskGraph(tasks=tasks)


def test_a_program_that_is_no_legal_order_is_refused() -> None:
    front = DATA_PARALLEL.front[False]
    half = type(front)(tasks=front.tasks, across=front.across, on_rank=front.on_rank[::-1], on_link=front.on_link)
    wrong = Parallelism(name="wrong", front={False: half, True: half}, back=DATA_PARALLEL.back)
    with pytest.raises(InputError, match="not a legal order"):
        unroll(wrong, np.zeros(0, bool), 1).place(lambda key: 1.0)
