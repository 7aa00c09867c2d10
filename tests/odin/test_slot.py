"""Slots: whatever the partition, the same gradient, every element in exactly one segment."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.ledger import Ledger, Pending
from odin.rows import Update
from odin.slot import GradientSlot
from tests.odin.test_rows import LAYOUT, segment


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(1, 30), seed=st.integers(0, 1000))
def test_every_partition_holds_the_same_gradient(rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ids = np.arange(rows, dtype=np.int32)
    cut = rng.random(rows) < 0.5
    slot = GradientSlot(rows, LAYOUT)
    slot.partition(
        [
            segment("urgent", ids[cut], (0, 1)),
            segment("colours", ids[~cut], (1,)),
            segment("geometry", ids[~cut], (0,)),
        ]
    )
    expected = np.zeros((rows, 59), np.float32)
    for _ in range(3):
        touched = np.sort(rng.permutation(rows)[: rng.integers(0, rows + 1)]).astype(np.int32)
        gradient = rng.normal(size=(len(touched), 59)).astype(np.float32)
        slot.add(0, touched, np.ascontiguousarray(gradient[:, :11]))
        slot.add(1, touched, np.ascontiguousarray(gradient[:, 11:]))
        expected[touched] += gradient
    assert slot.dense().tobytes() == expected.tobytes()
    assert sum(slot.slice(s).numel() for s in slot.segments) == rows * 59


def test_a_partition_with_a_hole_is_refused() -> None:
    slot = GradientSlot(4, LAYOUT)
    with pytest.raises(AssertionError, match="segments cover"):
        slot.partition([segment("some", np.arange(3, dtype=np.int32), (0, 1))])


def pending(step: int, ledger: Ledger) -> Pending:
    return Pending(step=step, update=Update(t=step + 1, lr=np.zeros(59), scale=1.0), slot=ledger.slot(step))


def test_the_ledger_refuses_what_would_lose_an_update() -> None:
    ledger = Ledger()
    ledger.resize(4, LAYOUT)
    first, second = pending(0, ledger), pending(1, ledger)
    ledger.push(first)
    ledger.push(second)
    with pytest.raises(AssertionError, match="overwrite"):
        ledger.slot(2)
    with pytest.raises(AssertionError, match="third"):
        ledger.push(Pending(step=2, update=second.update, slot=second.slot))
    with pytest.raises(AssertionError, match="oldest"):
        ledger.done(second)
    with pytest.raises(AssertionError, match="pending at a structural barrier"):
        ledger.require_flushed()
    ledger.done(first)
    ledger.done(second)
    ledger.require_flushed()
