"""Balanced regions and their coupling (LP, §4.2)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.errors import InputError
from odin.planner import locality_graph, partition, region_coupling

from .captures import ring, scattered


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, 80), st.data())
def test_any_number_of_regions_is_balanced(count: int, data: st.DataObject) -> None:
    regions = data.draw(st.integers(1, count))
    same_place = data.draw(st.booleans())
    label = partition(np.zeros((count, 3)) if same_place else scattered(count), regions)
    sizes = np.bincount(label, minlength=regions)
    assert len(sizes) == regions
    assert sizes.max() - sizes.min() <= 1


def test_regions_are_compact() -> None:
    centres = np.stack([np.arange(12.0)[::-1], np.zeros(12), np.zeros(12)], axis=1)
    assert partition(centres, 4).tolist() == [3, 3, 3, 2, 2, 2, 1, 1, 1, 0, 0, 0]


def test_opposite_quarters_of_a_ring_are_not_coupled() -> None:
    tracks, centres = ring(40)
    label = partition(centres, 4)
    graph = locality_graph(tracks)
    coupling = region_coupling(graph, label, 4)
    assert np.array_equal(coupling, coupling.T)
    assert coupling.sum() == pytest.approx(graph.weights.sum())
    assert sorted(np.count_nonzero(row) for row in coupling) == [3, 3, 3, 3]
    assert np.all(coupling.diagonal() > 2 * (coupling - np.diag(coupling.diagonal())).max(axis=1))


@pytest.mark.parametrize("regions", [0, 6])
def test_impossible_numbers_are_refused(regions: int) -> None:
    with pytest.raises(InputError, match="cannot be split"):
        partition(scattered(5), regions)


def test_a_centre_that_is_not_finite_is_refused() -> None:
    with pytest.raises(InputError, match="not a finite number"):
        partition(np.full((4, 3), np.nan), 2)
