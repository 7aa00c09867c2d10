"""Classes of rows by what is outstanding."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.inflation import levels


@settings(max_examples=50, deadline=None)
@given(rows=st.integers(0, 200), seed=st.integers(0, 1000))
def test_settled_rows_have_one_update_less_outstanding(rows: int, seed: int) -> None:
    settled = np.flatnonzero(np.random.default_rng(seed).random(rows) < 0.4).astype(np.int32)
    expected = np.ones(rows, np.uint8)
    expected[settled] = 0
    level = levels(rows, settled)
    assert level.dtype == np.uint8 and np.array_equal(level, expected)
