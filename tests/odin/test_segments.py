"""Hashes of cuts: equal for equal cuts, different for all that would mix rows or collectives of two ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
from hypothesis import given, settings

from harness.store.identity import ROOT
from odin.publication.layout import Classes, Cut, Cutting, lay_out
from tests.odin.test_layout import cuts, random_classes


def content(cut: Cut) -> list:
    return [(s.name, s.launch, [(b.groups, b.rows.tolist()) for b in s.blocks]) for s in cut.segments]


@settings(max_examples=60, deadline=None)
@given(cuts())
def test_equal_inputs_have_equal_hashes_in_31_bits(given_cut) -> None:
    classes, cutting = given_cut
    copied = Classes(last=classes.last.copy(), need=classes.need.copy())
    assert lay_out(classes, cutting).digest == lay_out(copied, cutting).digest
    assert 0 <= lay_out(classes, cutting).digest < 2**31


@settings(max_examples=120, deadline=None)
@given(cuts())
def test_cuts_that_differ_have_different_hashes(given_cut) -> None:
    """A row that is touched elsewhere; another budget; another unit order. (That the hash also tells apart inputs which
    cut alike is no harm: inputs are replicated.)"""
    classes, cutting = given_cut
    last = classes.last.copy()
    last[0] = 255 if last[0] != 255 else cutting.unit - 1
    others = [
        (replace(classes, last=last), cutting),
        (classes, replace(cutting, early=3)),
        (classes, replace(cutting, lead=2)),
        (classes, replace(cutting, split=not cutting.split)),
    ]
    before = lay_out(classes, cutting)
    for other in others:
        after = lay_out(*other)
        if content(before) != content(after):
            assert before.digest != after.digest


def test_the_hash_is_the_same_in_a_process_that_seeds_its_hashes_otherwise() -> None:
    """Ranks compare them, and each process hashes text with a seed of its own."""
    script = (
        "import numpy as np; from odin.publication.layout import *\n"
        "one = Classes(last=np.arange(9, dtype=np.uint8) % 2, need=np.arange(9, dtype=np.uint8) % 3 % 2)\n"
        "for early in (None, 4):\n"
        "    cutting = Cutting(unit=2, groups=2, split=True, early=early, lead=None, chunks=2, visible=(2,))\n"
        "    print(lay_out(one, cutting).digest)\n"
    )
    said = {
        subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed}, cwd=ROOT,
                       capture_output=True, text=True, check=True).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(said) == 1 and len(set(said.pop().split())) == 2


def test_the_order_of_rows_in_chunks_counts() -> None:
    classes = random_classes(50, 2, 7)
    classes.need[:] = np.where(classes.need < 2, 254, classes.need)
    cutting = Cutting(unit=2, groups=2, split=True, early=0, lead=0, chunks=4)
    backwards = replace(cutting, rank_of=lambda ids: ids[::-1].copy())
    assert content(lay_out(classes, cutting)) != content(lay_out(classes, backwards))
    assert lay_out(classes, cutting).digest != lay_out(classes, backwards).digest
