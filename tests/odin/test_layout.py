"""Cuts: whatever rows are needed for, everything travels once, is published once, and not before it is ready."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.hazards import NONE
from odin.layout import ColumnGroup, ColumnLayout
from odin.points import CLOSE, COLOURS, Kind, colour, geometry, view_done
from odin.publication.layout import DELAYED, REST, Classes, Cut, Cutting, _labels, fold, lay_out, sort_rows
from odin.segments import two_buckets
from odin.slot import GradientSlot
from tests.odin.test_rows import LAYOUT

GEOMETRY, COLOUR, VISIBLE = 0, 1, 2


def random_classes(rows: int, unit: int, seed: int) -> Classes:
    rng = np.random.default_rng(seed)
    kinds = np.array([*range(unit), DELAYED, REST], np.uint8)
    last = rng.choice(np.array([*range(unit), NONE], np.uint8), rows)
    return Classes(last=last, need=rng.choice(kinds, rows))


room = st.one_of(st.none(), st.integers(0, 90))
HELD = ColumnLayout(
    groups=tuple(ColumnGroup(name=n, first=a, last=b) for n, a, b in (("g", 0, 11), ("dc", 11, 14), ("rest", 14, 59)))
)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 4), st.integers(1, 60), st.booleans(), room, room, st.sampled_from([0, 3]), st.integers(0, 9999))
def test_held_groups_travel_and_are_published_once(unit, rows, split, early, lead, chunks, seed) -> None:
    """A group that no reader waits for is published at the end, and is no part of what is waited for."""
    cutting = Cutting(unit=unit, groups=3, split=split, early=early, lead=lead, chunks=chunks, read=2)
    classes = random_classes(rows, unit, seed)
    cut = lay_out(classes, cutting)
    place, published = link_place(cut, rows, 3), np.zeros((3, rows), int)
    GradientSlot(rows, HELD).partition(cut.segments)
    for k, spec in enumerate(cut.segments):
        for part in spec.parts:
            published[part.lo : part.hi, part.rows] += 1
            assert (place[part.lo : part.hi][:, part.rows] <= k).all()
            assert part.due == CLOSE or part.hi <= 2
    assert (published == (classes.last != NONE)).all()


@st.composite
def cuts(draw) -> tuple[Classes, Cutting]:
    unit, rows = draw(st.integers(1, 4)), draw(st.integers(1, 80))
    cutting = Cutting(
        unit=unit,
        groups=2,
        split=draw(st.booleans()),
        early=draw(room),
        lead=draw(room),
        corrects=draw(st.booleans()),
        chunks=draw(st.sampled_from([0, 1, 3, 8])),
        rank_of=lambda ids: ids[::-1],
        visible=draw(st.sampled_from([(), (VISIBLE,)])),
    )
    return random_classes(rows, unit, draw(st.integers(0, 10_000))), cutting


def link_place(cut: Cut, rows: int, groups: int) -> np.ndarray:
    """Which segment each row of each group travels in, [groups, N]; fails if it is not exactly one."""
    place, seen = np.full((groups, rows), -1), np.zeros((groups, rows), int)
    for k, spec in enumerate(cut.segments):
        for block in spec.blocks:
            for group in block.groups:
                np.add.at(seen[group], block.rows, 1)
                place[group, block.rows] = k
    assert (seen == 1).all()
    return place


@settings(max_examples=150, deadline=None)
@given(cuts())
def test_every_row_of_every_group_travels_once(given_cut) -> None:
    classes, cutting = given_cut
    rows, cut = len(classes.last), lay_out(*given_cut)
    link_place(cut, rows, 2 + len(cutting.visible))
    assert all(sum(len(block.rows) for block in spec.blocks) for spec in cut.segments), "an empty segment"
    GradientSlot(rows, LAYOUT.with_visible() if cutting.visible else LAYOUT).partition(cut.segments)
    assert np.array_equal(np.sort(cut.outside), np.flatnonzero(classes.last == NONE))
    delayed = (classes.need == DELAYED) & (classes.last != NONE)
    assert np.array_equal(np.sort(cut.delayed), np.flatnonzero(delayed))


@settings(max_examples=150, deadline=None)
@given(cuts())
def test_nothing_leaves_before_it_is_ready(given_cut) -> None:
    classes, cutting = given_cut
    cut, last = lay_out(*given_cut), classes.last
    order = [*(view_done(r) for r in range(cutting.unit - 1)), COLOURS, CLOSE]
    places = [order.index(spec.launch) for spec in cut.segments]
    assert places == sorted(places), "segments would not leave in link order"
    for spec in cut.segments:
        for block in spec.blocks:
            if spec.launch.kind is Kind.VIEW:
                assert ((last[block.rows] <= spec.launch.position) | (last[block.rows] == NONE)).all()
            if spec.launch == COLOURS:
                assert GEOMETRY not in block.groups


@settings(max_examples=150, deadline=None)
@given(cuts())
def test_budgets_are_kept_and_used(given_cut) -> None:
    classes, cutting = given_cut
    cut = lay_out(*given_cut)
    sent = dict.fromkeys(Kind, 0)
    for spec in cut.segments:
        sent[spec.launch.kind] += sum(len(block.rows) for block in spec.blocks)
    ready = (classes.last < cutting.unit - 1) | ((classes.last == NONE) & (cutting.unit > 1))
    if cutting.chunks:
        ready &= (classes.need != DELAYED) | (classes.last == NONE)
    could = int(ready.sum())
    assert sent[Kind.VIEW] == (could if cutting.early is None else min(cutting.early, could))
    if not cutting.split:
        assert sent[Kind.COLOURS] == 0
        return
    left = len(classes.last) - sent[Kind.VIEW] - (len(cut.delayed) if cutting.chunks else 0)
    assert sent[Kind.COLOURS] == (left if cutting.lead is None else min(cutting.lead, left))


@settings(max_examples=150, deadline=None)
@given(cuts())
def test_what_a_step_wrote_is_published_once_where_it_is_needed(given_cut) -> None:
    classes, cutting = given_cut
    cut, rows = lay_out(*given_cut), len(classes.last)
    place = link_place(cut, rows, 2 + len(cutting.visible))
    published = np.zeros((2, rows), int)
    for k, spec in enumerate(cut.segments):
        for part in spec.parts:
            need = classes.need[part.rows]
            assert part.due in {CLOSE, *(f(j) for f in (geometry, colour) for j in range(cutting.unit))}
            assert (place[[*range(part.lo, part.hi), *cutting.visible]][:, part.rows] <= k).all(), "not arrived yet"
            for group in range(part.lo, part.hi):
                published[group, part.rows] += 1
                point = geometry if group == GEOMETRY or not cutting.split else colour
                waited = need < cutting.unit
                assert waited.all() == waited.any() == (part.due != CLOSE) or not len(need)
                assert part.due == CLOSE or all(part.due == point(int(position)) for position in need)
            assert part.corrects == (cutting.corrects and len(need) > 0 and (need == DELAYED).all()) or not len(need)
    expected = (classes.last != NONE).astype(int)
    assert (published == expected).all()


@settings(max_examples=100, deadline=None)
@given(cuts())
def test_delayed_rows_travel_in_chunks_in_the_order_asked_for(given_cut) -> None:
    cutting, cut = given_cut[1], lay_out(*given_cut)
    pieces = [spec for spec in cut.segments if spec.name.startswith("chunk")]
    if not cutting.chunks or not len(cut.delayed):
        assert not pieces
        return
    travelled = np.concatenate([block.rows for spec in pieces for block in spec.blocks])
    assert np.array_equal(travelled, cutting.rank_of(cut.delayed))
    sizes = [len(spec.blocks[0].rows) for spec in pieces]
    assert len(pieces) == min(cutting.chunks, len(cut.delayed))
    assert max(sizes) - min(sizes) <= 1
    assert all(spec.launch == CLOSE for spec in pieces)


def test_link_order_is_that_of_the_design() -> None:
    """One row of every kind, two views: early, leading colours, urgent geometry, urgent colours, the rest."""
    kinds = [(last, need) for last in (0, 1) for need in (0, 1, DELAYED, REST)] + [(NONE, REST)]
    last, need = (np.array(x, np.uint8) for x in zip(*kinds, strict=True))
    cutting = Cutting(unit=2, groups=2, split=True, early=2, lead=1)
    names = [spec.name for spec in lay_out(Classes(last=last, need=need), cutting).segments]
    assert names == ["early", "colours", "urgent geometry 1", "urgent geometry 2", "urgent colours 2", "rest"]
    chunked = [spec.name for spec in lay_out(Classes(last=last, need=need), replace(cutting, chunks=2)).segments]
    assert chunked == [*names[:-1], "chunk 1", "chunk 2", "rest"]
    whole = [spec.name for spec in lay_out(Classes(last=last, need=need), replace(cutting, split=False)).segments]
    assert whole == ["early", "urgent 1", "urgent 2", "rest"]


@pytest.mark.parametrize("unit", [13, 14, 15, 16, 40])
def test_large_units_are_cut_as_small_ones(unit: int) -> None:
    """Classes of more than 14 views do not fit a byte."""
    classes = random_classes(600, unit, seed=unit)
    for early in (None, 0, 50):
        cut = lay_out(classes, Cutting(unit=unit, groups=2, split=True, early=early, lead=20))
        link_place(cut, 600, 2)
        assert np.array_equal(cut.outside, np.flatnonzero(classes.last == NONE))
        for spec in cut.segments:
            for part in spec.parts:
                assert (classes.last[part.rows] != NONE).all()
                assert part.due == CLOSE or (classes.need[part.rows] == part.due.position).all()


def test_two_buckets_are_colours_then_geometry() -> None:
    rows = np.arange(5, dtype=np.int32)
    for visible in ((), (VISIBLE,)):
        colours, rest = two_buckets(rows, visible)
        assert (colours.launch, rest.launch) == (COLOURS, CLOSE)
        assert colours.blocks[0].groups == (COLOUR, *visible)
        assert rest.blocks[0].groups == (GEOMETRY,)
        GradientSlot(5, LAYOUT.with_visible() if visible else LAYOUT).partition([colours, rest])


@settings(max_examples=100, deadline=None)
@given(rows=st.integers(0, 500), classes=st.sampled_from([1, 2, 5, 256, 300]), seed=st.integers(0, 10_000))
def test_rows_are_sorted_stably(rows: int, classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    last, need = rng.integers(0, 256, (2, rows)).astype(np.uint8)
    table = rng.integers(0, classes, (256, 256)).astype(np.uint8 if classes <= 256 else np.uint16)
    ids, starts = sort_rows(last, need, table, classes)
    label = table[last, need]
    assert ids.dtype == np.int32 and np.array_equal(ids, np.argsort(label, kind="stable"))
    assert starts.shape == (classes + 1,) and starts[0] == 0
    assert np.array_equal(np.diff(starts), np.bincount(label, minlength=classes))


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("unit", [1, 2, 3, 14, 15])
def test_classes_are_those_of_the_definition(unit: int, early: bool) -> None:
    table = _labels(unit, early)
    for last in range(256):
        outside = last == NONE
        ready = (0 if outside else min(last, unit - 1)) if early else unit - 1
        for need in range(256):
            place = unit if need == DELAYED else min(need, unit + 1)
            assert table[last, need] == ready * (unit + 3) + (unit + 2 if outside else place)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 70), st.integers(0, 9999), st.data())
def test_labels_that_differ_fold_differently(rows, seed, data) -> None:
    """In one row, wherever it is; in two rows exchanged; and when both steps' labels are exchanged."""
    classes = random_classes(rows, 3, seed)
    last, need = classes.last, classes.need
    folded = fold(last, need)
    assert folded == fold(last.copy(), need.copy()) and folded >= 0
    row, other = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, rows - 1))
    changed = last.copy()
    changed[row] ^= np.uint8(data.draw(st.integers(1, 255)))
    assert fold(changed, need) != folded
    assert fold(last, changed) != fold(last, last)
    swapped = need.copy()
    swapped[[row, other]] = swapped[[other, row]]
    assert (fold(last, swapped) != folded) == (need[row] != need[other])
    assert (fold(need, last) != folded) == (last != need).any()
