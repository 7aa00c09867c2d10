"""Memory by category: measured on running trainings, equal to the formula, complete, and flat in K."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from odin.arms import ARMS
from odin.dispatch import Dispatcher
from odin.keeper import Keeper
from odin.ledger import RING
from odin.memory import (
    SLOTS,
    Allocations,
    Memory,
    MemoryCategory,
    PeakKeeper,
    Sizes,
    measure,
    replicated_memory,
    shadow_memory,
)
from odin.plan import Plan
from odin.planner import build_plan
from odin.publication import Publication, UrgentPublication
from odin.recipe import Event
from odin.runtime import Runtime
from tests.odin.threads import run_ranks
from tests.odin.toy import LAYOUT, ToyRecipe
from tests.planner.captures import ring

ROWS, VIEWS, RANKS, UNIT, STEPS = 1000, 64, 2, 2, 30
SIZES = Sizes(rows=ROWS, columns=LAYOUT.columns, groups=len(LAYOUT.groups), batch=RANKS * UNIT)
BOUNDED = (MemoryCategory.ROW_LISTS, MemoryCategory.SCOPES)  # the peak may fall where fewer of them are alive
EXACT = [c.value for c in MemoryCategory if c not in BOUNDED]
QUIET = [Event.NONE] * STEPS


def plan_of(regions: int, events: list[Event] = QUIET) -> Plan:
    tracks, centres = ring(VIEWS)
    return build_plan(
        tracks=tracks,
        centres=centres,
        order="plan",
        ranks=RANKS,
        views_per_unit=UNIT,
        steps=len(events),
        regions=regions,
        seed=0,
        structural_after=np.array([bool(e) for e in events]),
    )


def peak(
    arm: str,
    plan: Plan,
    *,
    events: list[Event] = QUIET,
    keeper_of: Callable[[], PeakKeeper] = PeakKeeper,
    policy: type[Publication] | None = None,
) -> tuple[Memory, PeakKeeper]:
    """The first rank's peak, and its keeper."""

    def main(transport: object) -> PeakKeeper:
        keeper = keeper_of()
        runtime = Runtime(ToyRecipe(ROWS, VIEWS, events), plan, ARMS[arm], transport, keeper, policy=policy)
        keeper.holders = (runtime.recipe.table, runtime.publication)
        runtime.run()
        return keeper

    keeper = run_ranks(RANKS, main)[0][0]
    return keeper.peak, keeper


# Categories and counting ----------------------------------------------------------------------------------------


def test_every_category_is_a_field() -> None:
    assert [f.name for f in fields(Memory)] == [c.value for c in MemoryCategory]


class Listed:
    def __init__(self, *holdings: tuple[MemoryCategory, object]) -> None:
        self.holdings = lambda: holdings


def test_shared_storage_counts_once_and_whole() -> None:
    tensor = torch.zeros(100, 7)
    array = tensor.numpy()
    first = Listed((MemoryCategory.OTHER, tensor[5:]), (MemoryCategory.MOMENTS, array))
    again = Listed((MemoryCategory.SCOPES, torch.nn.Parameter(tensor.data)), (MemoryCategory.SCOPES, array[::2].T))
    assert measure([first, again]) == Memory(other=2800)
    assert measure([again, first]) == Memory(scopes=2800)
    assert measure([Listed((MemoryCategory.OTHER, tensor.clone())), first]) == Memory(other=5600)


def test_a_view_counts_what_it_keeps_alive() -> None:
    big = np.zeros((50, 4), np.float32)
    assert measure([Listed((MemoryCategory.ROW_LISTS, big[3:4].reshape(-1)))]) == Memory(row_lists=800)
    # A tensor made from part of an array says nothing of the rest, until the array itself is listed.
    part = Listed((MemoryCategory.MOMENTS, torch.from_numpy(big[10:20])))
    assert measure([part]) == Memory(moments=160)
    assert measure([part, Listed((MemoryCategory.OTHER, big))]) == Memory(moments=160, other=640)


@given(cuts=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 100)), max_size=12))
def test_overlapping_parts_count_as_their_union(cuts: list[tuple[int, int]]) -> None:
    whole, seen, allocations = np.zeros(100, np.uint8), np.zeros(100, bool), Allocations()
    for start, stop in cuts:
        # Tensors of an array's part have that part as their storage.
        fresh = allocations.add(torch.from_numpy(whole[start:stop])) if start < stop else 0
        assert fresh == (~seen[start:stop]).sum()
        seen[start:stop] = True


# Running trainings ------------------------------------------------------------------------------------------------


def test_measured_equals_formula() -> None:
    measured = peak("quality", plan_of(4))[0]
    formula = shadow_memory(SIZES)
    assert {c: getattr(measured, c) for c in EXACT} == {c: getattr(formula, c) for c in EXACT}
    assert 0 < measured.row_lists <= formula.row_lists
    assert 0 < measured.scopes <= formula.scopes
    assert measured.synchronized == 4 * SIZES.table
    assert measured.extra <= formula.extra
    assert SLOTS == RING


def test_bitmaps_are_padded_to_words() -> None:
    sizes = Sizes(rows=65, columns=7, groups=2, batch=4)
    assert shadow_memory(sizes, packed=True).scopes == 3 * (4 + 1) * 2 * 8
    assert shadow_memory(sizes, packed=False).scopes == 3 * (4 + 1) * 65


@pytest.mark.parametrize("arm", ["barrier-planned", "predicted"])
def test_arms_without_scopes_hold_slots_and_row_lists(arm: str) -> None:
    measured = peak(arm, plan_of(4))[0]
    without = {**asdict(shadow_memory(SIZES)), "scopes": 0}
    assert {c: getattr(measured, c) for c in EXACT} == {c: without[c] for c in EXACT}
    assert measured.row_lists <= 4 * ROWS * (1 + UNIT)


def test_flat_in_regions() -> None:
    plans = {regions: plan_of(regions) for regions in (1, 2, 4, 8, 16)}
    assert [p.provenance["regions_used"] for p in plans.values()] == [0, 2, 4, 8, 16]
    peaks = [peak("quality", plan)[0] for plan in plans.values()]
    assert len({tuple(getattr(p, c) for c in EXACT) for p in peaks}) == 1
    lists = [p.row_lists for p in peaks]
    assert max(lists) - min(lists) <= 8 * ROWS  # what is left to publish of two steps; depends on the scopes only


def test_the_yardstick_grows_linearly_with_units() -> None:
    extras = [replicated_memory(SIZES, units).extra for units in (1, 2, 3, 4)]
    assert np.all(np.diff(extras) == 4 * SIZES.table) and extras[0] == 0
    assert {replicated_memory(SIZES, u).synchronized for u in (1, 4)} == {shadow_memory(SIZES).synchronized}
    with pytest.raises(AssertionError, match="0 units"):
        replicated_memory(SIZES, 0)


# Completeness: nothing that grows with N is kept unlisted -----------------------------------------------------------


OURS = ("odin.", __name__)
ELSEWHERE = (Plan, ToyRecipe, Keeper, Dispatcher, type)  # not the policy's, or as many as there are views


def kept(value: object, seen: set[int] | None = None) -> Iterator[np.ndarray | torch.Tensor]:
    """Arrays whose size grows with N that are reachable from a value of the runtime."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray | torch.Tensor):
        if len(value.reshape(-1)) >= ROWS // 64:  # a bitmap in words is the smallest such array
            yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from kept(item, seen)
    elif isinstance(value, list | tuple | deque | set):
        for item in value:
            yield from kept(item, seen)
    elif type(value).__module__.startswith(OURS) and not isinstance(value, ELSEWHERE):
        for item in vars(value).values():
            yield from kept(item, seen)


class Complete(PeakKeeper):
    """Also compares what is listed with what is reachable, at the end of every phase."""

    unlisted = 0

    def _close(self, *phase: object) -> None:
        super()._close(*phase)
        allocations = Allocations()
        for holder in self.holders:
            for _, array in holder.holdings():
                allocations.add(array)
        for array in kept(list(self.holders)):
            self.unlisted += allocations.add(array)


class Hoarder(UrgentPublication):
    """The mutant: keeps an array that it does not list."""

    def open(self, step: int) -> None:
        super().open(step)
        self.hoard = [{"mask": np.zeros(ROWS, np.uint8)}]


def structural() -> list[Event]:
    events = [Event.NONE] * STEPS
    events[7], events[15], events[21] = Event.RESET, Event.SH_UP, Event.DENSIFY | Event.RESET
    return events


@pytest.mark.parametrize("arm", ["barrier-planned", "quality", "predicted"])
def test_nothing_is_kept_unlisted(arm: str) -> None:
    events = structural()
    measured, keeper = peak(arm, plan_of(4, events), events=events, keeper_of=Complete)
    assert keeper.unlisted == 0
    assert measured.other == measured.evidence == 0


def test_an_unlisted_array_is_found() -> None:
    _, keeper = peak("quality", plan_of(4), keeper_of=Complete, policy=Hoarder)
    assert keeper.unlisted >= ROWS
