"""Who renders what of a step: whole views, or bands of tile rows of about equal cost (D§6 Mixed parallel).

Grendel lays the tile rows of a batch's views one after the other and cuts the line into one piece for each rank, by
what each row is expected to cost (FORKS.md). A piece is a run of rows of one view, perhaps whole views, and a run of
the last one.

Legend: W ranks, B views of a step in unit order, T tasks, R tile rows of a view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Band = tuple[int, int]  # first tile row and one past the last


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a rank renders of one view. view: position in the step; band: None for the whole view."""

    rank: int
    view: int
    band: Band | None = None


@dataclass(frozen=True, kw_only=True)
class Division:
    """All tasks of a step, by rank, then view, then row; so also by view. Every rank has at least one.

    starts: int64 [W + 1], number of each rank's first task
    """

    tasks: tuple[Task, ...]
    ranks: int
    starts: NDArray[np.int64] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        owners = np.array([task.rank for task in self.tasks])
        object.__setattr__(self, "starts", np.searchsorted(owners, np.arange(self.ranks + 1)))

    @property
    def whole(self) -> bool:
        """No view is cut."""
        return all(task.band is None for task in self.tasks)

    def own(self, rank: int) -> tuple[Task, ...]:
        """The tasks of a rank."""
        return self.tasks[self.starts[rank] : self.starts[rank + 1]]

    def of_view(self, position: int) -> range:
        """Numbers of the tasks of a view."""
        views = np.array([task.view for task in self.tasks])
        first, last = np.searchsorted(views, [position, position + 1])
        return range(int(first), int(last))


def whole_views(ranks: int, units: int) -> Division:
    """Rank r renders views r·units … of the step."""
    tasks = tuple(Task(rank=view // units, view=view) for view in range(ranks * units))
    return Division(tasks=tasks, ranks=ranks)


def cut(costs: Sequence[NDArray[np.floating]], ranks: int) -> Division:
    """Pieces of about equal cost. costs: of the tile rows of each view, [B][R], not negative.

    Every cut is at the row edge nearest to its share, so no rank has more than the mean and one row. Raises ValueError
    where there are fewer rows than ranks.
    """
    rows = np.array([len(one) for one in costs])
    if rows.sum() < ranks:
        raise ValueError(f"{rows.sum()} tile rows cannot be cut into {ranks} pieces")
    edges = _edges(np.concatenate([np.asarray(one, np.float64) for one in costs]), ranks)
    first = rows.cumsum() - rows
    tasks = []
    for rank in range(ranks):
        for view in range(len(rows)):
            low = max(int(edges[rank] - first[view]), 0)
            high = min(int(edges[rank + 1] - first[view]), int(rows[view]))
            if low < high:
                whole = (low, high) == (0, rows[view])
                tasks.append(Task(rank=rank, view=view, band=None if whole else (low, high)))
    return Division(tasks=tuple(tasks), ranks=ranks)


def _edges(line: NDArray[np.float64], ranks: int) -> NDArray[np.int64]:
    """Row edges of the pieces, int64 [W + 1], each piece with a row at least."""
    before = np.concatenate([[0.0], line.cumsum()])  # cost before each edge
    shares = before[-1] * np.arange(1, ranks) / ranks
    above = np.searchsorted(before, shares).clip(1, len(line))
    nearer_below = shares - before[above - 1] <= before[above] - shares
    edges = np.concatenate([[0], above - nearer_below, [len(line)]]).astype(np.int64)
    for k in range(1, ranks):
        edges[k] = min(max(edges[k], edges[k - 1] + 1), len(line) - (ranks - k))
    return edges
