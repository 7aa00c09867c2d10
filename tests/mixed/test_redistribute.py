"""Who owns which row: every row has one owner, moving rows is a permutation, and no trained bit depends on it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.run.workload import Workload
from odin.errors import InputError
from odin.shared.meeting import part_of
from pipelines.reference.densify import ShardNoise
from pipelines.reference.redistribute import Deal, Rule, fullness
from tests.mixed.rooms import settings_of, trained, workload


@settings(deadline=None)
@given(
    seed=st.integers(0, 1000),
    counts=st.lists(st.integers(0, 9), min_size=1, max_size=5).filter(sum),
    move=st.booleans(),
)
def test_a_deal_moves_every_row_to_its_place(seed: int, counts: list[int], move: bool) -> None:
    ranks, total = len(counts), sum(counts)
    order = np.random.default_rng(seed).permutation(total)
    have = np.split(np.arange(total), np.cumsum(counts)[:-1])
    deals = [Deal(order=order, counts=np.array(counts), rank=r, move=move) for r in range(ranks)]
    owned = []
    for rank, deal in enumerate(deals):
        received = []
        for source, other in enumerate(deals):
            ends = other.sizes.cumsum()
            received.append(have[source][other.outgoing][ends[rank] - other.sizes[rank] : ends[rank]])
        rows = np.concatenate(received)[deal.incoming]
        assert rows.tolist() == order[deal.ids].tolist(), "a row is not where its place says"
        assert (np.diff(deal.ids) > 0).all()
        if move:
            assert deal.ids.tolist() == list(range(total))[part_of(total, rank, ranks)]
        else:
            assert sorted(rows.tolist()) == have[rank].tolist()
        owned += deal.ids.tolist()
    assert sorted(owned) == list(range(total)), "not a permutation"
    assert len({deal.moved for deal in deals}) == 1
    assert move or deals[0].moved == 0


@settings(deadline=None)
@given(owner_of=st.lists(st.integers(0, 2), min_size=1, max_size=12), version=st.integers(0, 3))
def test_split_noise_follows_places_not_owners(owner_of: list[int], version: int) -> None:
    every = 3 * np.arange(len(owner_of), dtype=np.int32) + 1
    alone = ShardNoise(7, version, every, every).normal(size=(2 * len(every), 3)).reshape(2, -1, 3)
    for owner in range(3):
        own = every[np.array(owner_of) == owner]
        shuffled = np.random.default_rng(version).permutation(every)
        drawn = ShardNoise(7, version, own, shuffled).normal(size=(2 * len(own), 3)).reshape(2, -1, 3)
        assert np.array_equal(drawn, alone[:, np.array(owner_of) == owner])


def test_the_rule_is_grendels() -> None:
    rule, uneven = Rule(every=10, above=1.1), np.array([10, 13])
    assert fullness(uneven) == pytest.approx(13 / 11.5)
    assert rule.moves(uneven, 10) and not rule.moves(uneven, 9)
    assert not rule.moves(np.array([10, 12]), 10), "1.09 is balanced enough"
    assert not Rule(every=0, above=1.0).moves(uneven, 10)
    assert Rule(every=0, above=1.0).moves(np.array([0, 3]), 1), "an owner was left without rows"
    for values in ({"every": -1, "above": 1.1}, {"every": 1, "above": 0.9}, {"every": 1, "above": float("nan")}):
        with pytest.raises(InputError, match="redistribute_"):
            Rule(**values)


@pytest.fixture(scope="module")
def scene() -> Workload:
    return workload()


def test_who_owns_what_changes_no_bit(scene: Workload) -> None:
    always, never, default = (
        trained(scene, "quality", 4, settings=settings_of(densify_grad_threshold=1e-3, **more))
        for more in ({"redistribute_above": 1.0}, {"redistribute_every": 0}, {})
    )
    assert always.digest == never.digest == default.digest
    moved = [[r.moved for r in run.model.redistributions] for run in (always, never, default)]
    assert min(moved[0]) > 0 and max(moved[1]) == 0 and len(moved[1]) == 2, "nothing, or everything, has moved"
    assert max(always.rows) - min(always.rows) <= 1, "rows are not dealt out evenly"
    assert fullness(np.array(never.rows)) > 1.0
    assert fullness(np.array(default.rows)) <= 1.1
