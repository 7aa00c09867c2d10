"""The phase task graph as data: phases of a step with their predecessors, and which orders of them are legal (§4.1.2).

The steps of data-parallel and mixed-parallel training are in `odin.planner.parallelism`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from odin.errors import InputError
from odin.phases import Phase


@dataclass(frozen=True, kw_only=True)
class Task:
    """A phase of a step.

    after:  tasks of the same step that have to be finished first
    phases: priced phases that it stands for; none where it occupies the link
    link:   a collective: it starts when all ranks have come, and is there for all of them
    """

    name: str
    after: tuple[str, ...] = ()
    phases: tuple[Phase, ...] = ()
    link: bool = False


@dataclass(frozen=True, kw_only=True)
class TaskGraph:
    """Tasks with predecessors. Raises InputError for a name given twice, an unknown predecessor or a cycle."""

    tasks: tuple[Task, ...]
    by_name: Mapping[str, Task] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        known = {task.name: task for task in self.tasks}
        if len(known) != len(self.tasks):
            raise InputError("A task graph has two tasks of one name; give each its own.")
        for task in self.tasks:
            if missing := [name for name in task.after if name not in known]:
                raise InputError(f"Task {task.name!r} waits for {missing[0]!r}, which is not in the graph.")
        object.__setattr__(self, "by_name", MappingProxyType(known))
        topological({task.name: task.after for task in self.tasks})

    def is_legal(self, order: Sequence[str]) -> bool:
        """Whether `order` holds every task once and none before a predecessor."""
        place = {name: at for at, name in enumerate(order)}
        if len(order) != len(place) or place.keys() != self.by_name.keys():
            return False
        return all(place[before] < place[task.name] for task in self.tasks for before in task.after)

    def legal_orders(self) -> Iterator[tuple[str, ...]]:
        """Every legal order once. Their number grows like a factorial: for small graphs, or the first few."""
        yield from self._extend(())

    def _extend(self, done: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if len(done) == len(self.tasks):
            yield done
        seen = set(done)
        for task in self.tasks:
            if task.name not in seen and seen.issuperset(task.after):
                yield from self._extend((*done, task.name))


def topological(after: Mapping[str, Sequence[str]]) -> list[str]:
    """One legal order of a graph given as name → predecessors; raises InputError for a cycle."""
    order: list[str] = []
    left = {name: set(before) for name, before in after.items()}
    while left:
        ready = [name for name, before in left.items() if not before]
        if not ready:
            raise InputError(f"Tasks {', '.join(sorted(left))} wait for each other: a task graph has no cycle.")
        order += ready
        for name in ready:
            del left[name]
        for before in left.values():
            before.difference_update(ready)
    return order
