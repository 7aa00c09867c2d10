"""Which owner holds which primitive after densification (D§6 Mixed parallel; Grendel's redistribution).

Rows have one global order, along a Morton curve, whoever owns them; an owner keeps its rows in that order and knows
their places in it. Depth ties, split noise and sums follow places, never owners, so moving rows changes no trained bit.
Upstream sends every row to a random owner at each tenth densification where the fullest owner has more than 1.1 times
the mean (FORKS.md); here each owner gets the same stretch of the curve, which keeps scopes compact.

Legend: N rows of all owners, n of one, W ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odin.errors import InputError
from odin.shared.meeting import part_of

Ids = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Redistribution:
    """What became of owners at one densification.

    moved:    rows that changed their owner, of all owners together; 0 where rows stayed
    before, after: rows of the fullest owner ÷ mean over owners
    """

    step: int
    moved: int
    before: float
    after: float


@dataclass(frozen=True, kw_only=True)
class Rule:
    """When rows move. every: at each so-many-th densification, 0 for never; above: only if the fullest owner has more
    than so many times the mean. Rows also move where an owner would be left without any.

    Raises InputError for values that mean nothing.
    """

    every: int
    above: float

    def __post_init__(self) -> None:
        if self.every < 0:
            raise InputError(
                f"pipeline.redistribute_every is {self.every}; give densifications between checks, or 0 for never."
            )
        if not self.above >= 1.0:
            raise InputError(
                f"pipeline.redistribute_above is {self.above}; it is rows of the fullest owner ÷ mean over owners, 1 "
                "or more. Grendel has 1.1; with 1 rows move wherever owners differ."
            )

    def moves(self, counts: Ids, densification: int) -> bool:
        """Whether rows move. counts: int64 [W], rows of each owner; densification: its number, from 1."""
        due = self.every > 0 and densification % self.every == 0
        return bool((due and fullness(counts) > self.above) or counts.min() == 0)


def fullness(counts: Ids) -> float:
    """Rows of the fullest owner ÷ mean over owners (int64 [W])."""
    return float(counts.max() * len(counts) / max(int(counts.sum()), 1))


class Deal:
    """Who gets which row.

    order:    int64 [N], rows of all owners (in rank order) along the curve
    counts:   int64 [W], rows that each owner has
    outgoing: int64 [n], own rows in the order in which they leave; sizes: int64 [W], how many to whom
    incoming: int64 [n'], for each new own row, where it stands among those received in rank order
    ids:      int32 [n'], places of the new own rows on the curve, ascending
    moved:    rows of all owners that change theirs
    """

    def __init__(self, *, order: Ids, counts: Ids, rank: int, move: bool = True) -> None:
        ranks, total = len(counts), len(order)
        starts = counts.cumsum() - counts
        place = np.empty(total, np.int64)
        place[order] = np.arange(total)
        have = np.repeat(np.arange(ranks), counts)[order]  # along the curve: who has the row
        edges = np.array([part_of(total, r, ranks).start for r in range(ranks)] + [total])
        gets = np.repeat(np.arange(ranks), np.diff(edges)) if move else have
        own = place[starts[rank] : starts[rank] + counts[rank]]
        # To one owner after the other, to each along the curve.
        self.outgoing = np.lexsort((own, gets[own]))
        self.sizes = np.bincount(gets[own], minlength=ranks).astype(np.int64)
        mine = np.flatnonzero(gets == rank)
        self.incoming = np.empty(len(mine), np.int64)
        self.incoming[np.argsort(have[mine], kind="stable")] = np.arange(len(mine))
        self.ids = mine.astype(np.int32)
        self.moved = int((gets != have).sum())
