"""What training holds in memory, by category: measured, by formula, and under full replication (D§6, Fig. 16 left).

Measured: every holder lists the arrays it keeps. An array counts with the whole allocation that it keeps alive, and
an allocation counts once, for the holder and category that name it first. Listed is what persists between program
points; temporaries inside a phase, the frames of a unit and densification statistics are those of a synchronized
trainer too and are not listed.

Legend: N rows, D columns, G column groups, B views per step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from odin.keeper import Keeper, Work
from odin.phases import Phase


class MemoryCategory(Enum):
    """What an array is held for. The value is the field of `Memory`."""

    PARAMETERS = "parameters"
    MOMENTS = "moments"
    GRADIENT = "gradient"  # the one slot that a synchronized trainer needs too
    EXTRA_SLOT = "extra_slot"  # the other slot of the ring
    SLOT_OFFSETS = "slot_offsets"  # where a row's gradient lies in its slot
    SCOPES = "scopes"  # R⁺ and W⁺ of steps to come
    ROW_LISTS = "row_lists"  # int32 ids: rows of segments, rows to publish, rows of own views
    EVIDENCE = "evidence"  # of the throughput gate: last published norm of each row
    OTHER = "other"
    REPLICAS = "replicas"  # full replication only: the states of all units in flight but the first


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes by category."""

    parameters: int = 0
    moments: int = 0
    gradient: int = 0
    extra_slot: int = 0
    slot_offsets: int = 0
    scopes: int = 0
    row_lists: int = 0
    evidence: int = 0
    other: int = 0
    replicas: int = 0

    @property
    def total(self) -> int:
        """All categories."""
        return sum(asdict(self).values())

    @property
    def synchronized(self) -> int:
        """What a synchronized trainer holds: parameters, moments and one gradient."""
        return self.parameters + self.moments + self.gradient

    @property
    def extra(self) -> int:
        """What overlap costs beyond that (Fig. 16 left)."""
        return self.total - self.synchronized


Array = torch.Tensor | NDArray[Any]
Holding = tuple[MemoryCategory, Array]


class Holder(Protocol):
    """Something that keeps arrays."""

    def holdings(self) -> Iterable[Holding]:
        """Every array it keeps whose size grows with N, in an order that does not matter unless storage is shared."""
        ...


class Allocations:
    """Allocations seen so far, as disjoint address ranges."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

    def add(self, array: Array) -> int:
        """Bytes of the allocation behind `array` that were not seen before."""
        start, stop = _allocation(array)
        seen = [r for r in self._ranges if r[0] < stop and start < r[1]]
        known = sum(min(stop, b) - max(start, a) for a, b in seen)
        whole = (min([start, *(a for a, _ in seen)]), max([stop, *(b for _, b in seen)]))
        self._ranges = [*(r for r in self._ranges if r not in seen), whole]
        return stop - start - known


def _allocation(array: Array) -> tuple[int, int]:
    """First address and end of the allocation that an array keeps alive, however little of it the array shows."""
    # A numpy view of a tensor has that tensor as its base.
    while isinstance(array, np.ndarray) and isinstance(array.base, np.ndarray | torch.Tensor):
        array = array.base
    if isinstance(array, torch.Tensor):
        storage = array.untyped_storage()
        return storage.data_ptr(), storage.data_ptr() + storage.nbytes()
    return array.ctypes.data, array.ctypes.data + array.nbytes


def measure(holders: Iterable[Holder]) -> Memory:
    """Bytes that the holders keep right now."""
    allocations = Allocations()
    sizes = dict.fromkeys(MemoryCategory, 0)
    for holder in holders:
        for category, array in holder.holdings():
            sizes[category] += allocations.add(array)
    return Memory(**{category.value: size for category, size in sizes.items()})


class PeakKeeper(Keeper):
    """Wall-clock time keeping that also measures `holders` at the end of every phase, which is where arrays come and
    go; `peak` is the measurement with the largest extra memory. Its timings include the measuring."""

    def __init__(self) -> None:
        super().__init__()
        self.holders: Sequence[Holder] = ()
        self.peak = Memory()

    def _close(self, phase: Phase, work: Work, start: float, end: float, cpu: float) -> None:
        super()._close(phase, work, start, end, cpu)
        self.peak = max(self.peak, measure(self.holders), key=lambda memory: memory.extra)


# Formulas -----------------------------------------------------------------------------------------------------

SLOTS = 2  # of the ledger's ring
SCOPED_STEPS = 3  # at p0 of A scopes of A, B and C exist: C's are computed before A's are let go
# int32 lists of at most N ids each: all rows; and for the cut of each of the two slots the sorted rows, those of
# classes that had to be joined, and joined rows outside W⁺.
ROW_LISTS = 7

PACKED = True  # scopes are held as bitmaps, not as one byte per row

_FLOAT, _ID, _OFFSET, _WORD = 4, 4, 8, 64


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What the formulas depend on: N rows, D columns, G groups, B views per step. The number of logical regions K
    is not among them."""

    rows: int
    columns: int
    groups: int
    batch: int

    @property
    def table(self) -> int:
        """Bytes of one float32 [N, D]."""
        return _FLOAT * self.rows * self.columns


def shadow_memory(sizes: Sizes, *, packed: bool = PACKED) -> Memory:
    """The most that `quality` holds. `row_lists` and `scopes` are upper bounds (the share of the one depends on the
    scopes, and not all of both is held at the same moment); all other categories are exact.

    packed: scopes are bitmaps in 64-bit words; otherwise one byte per row
    """
    scope = _WORD // 8 * -(-sizes.rows // _WORD) if packed else sizes.rows
    return Memory(
        parameters=sizes.table,
        moments=2 * sizes.table,
        gradient=sizes.table,
        extra_slot=(SLOTS - 1) * sizes.table,
        slot_offsets=SLOTS * _OFFSET * sizes.groups * sizes.rows,
        scopes=SCOPED_STEPS * (sizes.batch + 1) * scope,  # R⁺ of B views, and their union W⁺
        row_lists=ROW_LISTS * _ID * sizes.rows,
    )


def replicated_memory(sizes: Sizes, units: int) -> Memory:
    """The yardstick: every unit in flight has parameters, moments and a gradient of its own (D§6).

    The paper does not define its replication-based alternative. This is the cheapest that deserves the name: the
    first unit works on the synchronized trainer's state, so one unit in flight costs nothing extra.
    """
    if units < 1:
        raise AssertionError(f"{units} units in flight")
    state = 4 * sizes.table
    return Memory(parameters=sizes.table, moments=2 * sizes.table, gradient=sizes.table, replicas=(units - 1) * state)
