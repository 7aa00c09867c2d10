"""Hashes of cuts: equal for equal cuts, different for all that would mix rows or collectives of two ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings

from odin.points import CLOSE, COLOURS, view_done
from odin.publication.layout import Cutting, lay_out
from odin.segments import Block, SegmentSpec, digest, two_buckets
from tests.odin.test_layout import cuts, random_classes

ROWS = np.arange(6, dtype=np.int32)


def spec(*blocks: tuple[np.ndarray, tuple[int, ...]], name: str = "rest", launch: object = CLOSE) -> SegmentSpec:
    return SegmentSpec(name=name, blocks=tuple(Block(rows=r, groups=g) for r, g in blocks), launch=launch)


BASE = [spec((ROWS[:3], (0, 1)), name="urgent"), spec((ROWS[3:], (1,)), (ROWS[3:], (0,)))]


def test_a_copy_has_the_same_hash_in_31_bits() -> None:
    again = [replace(s, blocks=tuple(replace(b, rows=b.rows.copy()) for b in s.blocks)) for s in BASE]
    assert digest(BASE) == digest(again)
    assert 0 <= digest(BASE) < 2**31
    assert digest([]) == 0


def test_every_difference_that_matters_changes_it() -> None:
    urgent, rest = BASE
    others = {
        "a row": [spec((np.array([0, 1, 4], np.int32), (0, 1)), name="urgent"), rest],
        "the order of rows": [spec((ROWS[2::-1].copy(), (0, 1)), name="urgent"), rest],
        "the groups": [spec((ROWS[:3], (1, 0)), name="urgent"), rest],
        "the order of blocks": [urgent, replace(rest, blocks=rest.blocks[::-1])],
        "the order of segments": [rest, urgent],
        "a segment in two": [urgent, spec((ROWS[3:], (1,))), spec((ROWS[3:], (0,)))],
        "two segments in one": [replace(urgent, blocks=urgent.blocks + rest.blocks)],
        "the point of the launch": [replace(urgent, launch=COLOURS), rest],
        "the view of the launch": [replace(urgent, launch=view_done(0)), rest],
        "another view of the launch": [replace(urgent, launch=view_done(1)), rest],
        "one segment less": [urgent],
        "rows between blocks": [urgent, spec((ROWS[3:5], (1,)), (ROWS[3:], (0,)))],
    }
    hashes = {name: digest(cut) for name, cut in others.items()} | {"none": digest(BASE)}
    assert len(set(hashes.values())) == len(hashes), hashes


@settings(max_examples=60, deadline=None)
@given(cuts())
def test_one_row_that_is_needed_elsewhere_changes_it(given_cut) -> None:
    classes, cutting = given_cut
    before = lay_out(classes, cutting).segments
    last = classes.last.copy()
    last[0] = 255 if last[0] != 255 else cutting.unit - 1
    after = lay_out(replace(classes, last=last), cutting).segments
    same = [
        [(s.name, s.launch, [(b.groups, b.rows.tolist()) for b in s.blocks]) for s in cut] for cut in (before, after)
    ]
    assert (digest(before) == digest(after)) == (same[0] == same[1])


def test_arms_that_cut_alike_agree() -> None:
    classes = random_classes(50, 2, 7)
    cutting = Cutting(unit=2, groups=2, split=True, early=10, lead=5)
    assert digest(lay_out(classes, cutting).segments) == digest(lay_out(classes, cutting).segments)
    assert digest(two_buckets(ROWS)) != digest(two_buckets(ROWS, (2,)))
