"""What the ranks of a virtual cell did, without when: phases, and where collectives are joined and waited for.

No rank of a virtual cell decides anything by the clock (but for dispatch=time), so the program stays as it is when
phases take longer or shorter: playing it once more is the whole of re-timing.

Legend: I items of all ranks, W ranks, C collectives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from odin.keeper import Entry, Work

PHASE, JOIN, WAIT = 0, 1, 2

Price = Callable[[str, Work], float]


@dataclass(frozen=True, kw_only=True)
class Program:
    """Items of rank w are first[w] … first[w + 1] - 1.

    kind:     int8 [I], PHASE, JOIN or WAIT
    value:    float64 [I], nominal seconds of a phase, else the number of a collective
    key:      uint64 [I], equal for the same work of the same rank in every arm: step, name, and which of these
    first:    int64 [W + 1]
    transfer: float64 [C], seconds that each collective occupies the link, in link order
    """

    kind: NDArray[np.int8]
    value: NDArray[np.float64]
    key: NDArray[np.uint64]
    first: NDArray[np.int64]
    transfer: NDArray[np.float64]


def program_of(entries: Sequence[Sequence[Entry]], joins: Sequence[Sequence[int]], price: Price) -> Program | None:
    """The program of a cell; None where its timeline does not tell it: a collective that nobody waited for, or several
    that took no time at once, which cannot be told apart.

    entries: timeline of each rank; joins: where in it each collective was joined, in their order
    price:   nominal seconds of a phase
    """
    transfers = [_transfers(one) for one in entries]
    lengths = np.array([finish - start for start, finish in transfers[0]], np.float64)
    if any(one != transfers[0] for one in transfers[1:]) or any(len(one) != len(lengths) for one in joins):
        return None
    numbers = {times: number for number, times in enumerate(transfers[0])}
    items = [item for r, one in enumerate(entries) for item in _items(r, one, joins[r], numbers, price)]
    counts = [sum(e.kind != "collective" for e in one) + len(lengths) for one in entries]
    return Program(
        kind=np.array([kind for kind, _, _ in items], np.int8),
        value=np.array([value for _, value, _ in items], np.float64),
        key=np.array([key for _, _, key in items], np.uint64),
        first=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        transfer=lengths,
    )


def _transfers(entries: Sequence[Entry]) -> list[tuple[float, float]]:
    """Start and finish of each collective in link order; one that is waited for twice stands twice in a timeline."""
    return sorted({(e.start, e.end) for e in entries if e.kind == "collective"})


def _items(
    rank: int, entries: Sequence[Entry], joins: Sequence[int], numbers: dict[tuple[float, float], int], price: Price
) -> list[tuple[int, float, int]]:
    found, joined, seen = list[tuple[int, float, int]](), 0, Counter[tuple[int, str]]()
    for at, entry in enumerate(entries):
        while joined < len(joins) and joins[joined] <= at:
            found.append((JOIN, float(joined), 0))
            joined += 1
        if entry.kind == "phase":
            seen[entry.step, entry.name] += 1
            name = f"{rank}/{entry.step}/{entry.name}/{seen[entry.step, entry.name]}"
            found.append((PHASE, price(entry.name, entry.work), crc32(name.encode())))
        elif entry.kind == "wait":
            collective = entries[at + 1]  # a keeper enters what was waited for right behind the wait
            found.append((WAIT, float(numbers[collective.start, collective.end]), 0))
    found += [(JOIN, float(number), 0) for number in range(joined, len(joins))]
    return found
