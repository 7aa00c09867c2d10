"""A plan on the phase task graph: when every task runs, given how long each takes (§4.1.2, Fig. 6).

Every rank goes through its program in order, the link through its own; a task starts when the one before it on the
same rank or link and all its predecessors are done. That is the longest path in a graph without cycles.
Legend: S steps, W ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odin.errors import InputError
from odin.planner.parallelism import Parallelism
from odin.planner.tasks import Task, TaskGraph

LINK = -1
"""The rank of a task that occupies the link."""

Key = tuple[int, int, str]
Seconds = Callable[[Key], float]
"""Duration of a task (step, rank or LINK, name)."""

STEADY_STEPS = 6  # long enough that start and end no longer show in the first four digits of a step's time


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A task on the clock; rank is LINK for a collective."""

    step: int
    rank: int
    name: str
    start: float
    end: float


@dataclass(frozen=True, kw_only=True)
class Unrolled:
    """The tasks of S steps on W ranks.

    after: task → its predecessors, those by precedence first, then the one before it on its rank or on the link
    """

    after: Mapping[Key, tuple[Key, ...]]

    def place(self, seconds: Seconds) -> list[Placed]:
        """Every task as early as it may start, in a legal order."""
        end: dict[Key, float] = {}
        placed = []
        for key in self._order():
            start = max((end[before] for before in self.after[key]), default=0.0)
            end[key] = start + seconds(key)
            placed.append(Placed(step=key[0], rank=key[1], name=key[2], start=start, end=end[key]))
        return placed

    def _order(self) -> list[Key]:
        """A legal order: steps and programs are listed in one, apart from tasks that were left to a later step."""
        done: set[Key] = set()
        order: list[Key] = []
        left = list(self.after)
        while left:
            ready = []
            for key in left:
                if done.issuperset(self.after[key]):
                    done.add(key)
                    ready.append(key)
            if not ready:
                raise InputError(f"Tasks {left[:4]} wait for each other: the program is not a legal order.")
            order += ready
            left = [key for key in left if key not in done]
        return order


def unroll(parallelism: Parallelism, candidate: NDArray[np.bool_], ranks: int) -> Unrolled:
    """The tasks of S = len(candidate) + 1 steps with their predecessors.

    candidate: bool [S-1], which windows overlap; before the first and after the last step there is nothing to
               overlap with, so they are treated as blocking
    """
    around = np.concatenate([[False], candidate, [False]])
    after: dict[Key, tuple[Key, ...]] = {}
    last: dict[int, Key] = {}
    graph: TaskGraph | None = None
    for step in range(len(candidate) + 1):
        before, behind = bool(around[step]), bool(around[step + 1])
        graph, previous = parallelism.step(before=before, after=behind), graph
        across = parallelism.front[before].across if previous else ()
        rank_program = parallelism.rank_program(before=before, after=behind)
        programs = [(rank, rank_program) for rank in range(ranks)]
        programs.append((LINK, parallelism.link_program(before=before, after=behind)))
        for lane, program in programs:
            for back, name in program:
                of = graph if back == 0 else previous
                assert of is not None
                key = (step - back, lane, name)
                waits = list(_within(of, step - back, lane, name, ranks))
                if back == 0 and previous:
                    waits += _across(across, previous, step, of.by_name[name], lane, ranks)
                after[key] = tuple(dict.fromkeys([*waits, *([last[lane]] if lane in last else [])]))
                last[lane] = key
    return Unrolled(after=after)


def _within(graph: TaskGraph, step: int, lane: int, name: str, ranks: int) -> Iterator[Key]:
    for before in graph.by_name[name].after:
        yield from _instances(graph.by_name[before], step, lane, ranks)


def _across(
    edges: tuple[tuple[str, str], ...], previous: TaskGraph, step: int, task: Task, lane: int, ranks: int
) -> Iterator[Key]:
    for before, waiting in edges:
        if waiting == task.name and before in previous.by_name:
            yield from _instances(previous.by_name[before], step - 1, lane, ranks)


def _instances(task: Task, step: int, lane: int, ranks: int) -> Iterator[Key]:
    """What a task on `lane` waits for when it waits for `task`: the collective, its own rank's, or all ranks'."""
    if task.link:
        yield (step, LINK, task.name)
    elif lane != LINK:
        yield (step, lane, task.name)
    else:
        yield from ((step, rank, task.name) for rank in range(ranks))


def step_seconds(parallelism: Parallelism, seconds: Mapping[str, float], *, candidate: bool) -> float:
    """Seconds per step of a long run of equal steps whose windows are all candidates, or all blocking.

    seconds: task name → duration, on every rank; a name that is missing takes no time
    """
    ends = []
    for steps in (STEADY_STEPS, 2 * STEADY_STEPS):
        graph = unroll(parallelism, np.full(steps - 1, candidate), 1)
        ends.append(max(task.end for task in graph.place(lambda key: seconds.get(key[2], 0.0))))
    return (ends[1] - ends[0]) / STEADY_STEPS
