"""The link model: order, slowest rank, durations; and that its checks refuse nonsense."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odin.comm.link import ClusterLink, Link, link_for_exposure
from odin.comm.stamps import FinishTimes, JoinStamps
from odin.errors import InputError


def board(tmp_path: Path, ranks: int = 2) -> JoinStamps:
    JoinStamps.create(tmp_path / "stamps", 8, ranks)
    return JoinStamps(tmp_path / "stamps", 8, ranks)


def test_a_collective_waits_for_the_last_rank_and_for_the_link(tmp_path: Path) -> None:
    stamps = board(tmp_path)
    times, link = FinishTimes(stamps), Link(name="x", alpha=0.5, beta=100.0)
    for k, joins in enumerate([(10.0, 12.0), (12.5, 12.4), (30.0, 29.0)]):
        assert times.launched(link.all_reduce_seconds(200, ranks=2)) == k
        for rank, now in enumerate(joins):
            stamps.join(k, rank, now)
    # 2·(n-1)·alpha + 2·(n-1)/n · 200/100 = 1 + 2 = 3 seconds each.
    assert [times.span(k) for k in range(3)] == [(12.0, 15.0), (15.0, 18.0), (30.0, 33.0)]
    assert times.last_join(1) == 12.5


def test_a_missing_join_is_not_a_time(tmp_path: Path) -> None:
    stamps = board(tmp_path)
    stamps.join(0, 1, 5.0)
    assert math.isnan(stamps.last_join(0))


def test_stamps_do_not_run_over(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="exceeds"):
        board(tmp_path).join(8, 0, 1.0)


def test_the_solved_link_exposes_the_share_it_was_solved_for() -> None:
    link = link_for_exposure("exposed-295", 0.295, step_seconds=0.08, nbytes=2_000_000, ranks=2)
    transfer = link.all_reduce_seconds(2_000_000, 2)
    assert transfer / (transfer + 0.08) == pytest.approx(0.295)
    slow = link.stretched(1.5).all_reduce_seconds(2_000_000, 2)
    assert slow == pytest.approx(1.5 * transfer)


@given(nbytes=st.integers(0, 2**40), ranks=st.integers(1, 64), alpha=st.floats(0, 1e-2), beta=st.floats(1e3, 1e12))
def test_an_ordered_sum_occupies_the_link_as_long_as_a_ring(nbytes: int, ranks: int, alpha: float, beta: float) -> None:
    link = Link(name="x", alpha=alpha, beta=beta)
    halves = link.all_to_all_seconds(nbytes, ranks), link.all_gather_seconds(nbytes, ranks)
    assert sum(halves) == pytest.approx(link.all_reduce_seconds(nbytes, ranks))
    assert halves[0] == pytest.approx((ranks - 1) * (alpha + nbytes / ranks / beta))


@pytest.mark.parametrize("beta", [0.0, -1.0])
def test_a_link_without_bandwidth_is_refused(beta: float) -> None:
    with pytest.raises(InputError, match="bandwidth"):
        Link(name="x", beta=beta)


def test_an_impossible_share_is_refused() -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        link_for_exposure("x", 1.0, step_seconds=1.0, nbytes=8, ranks=2)


def cluster() -> ClusterLink:
    return ClusterLink(name="c", alpha=1e-5, beta=1e9, per_node=4, across_alpha=1e-4, across_beta=2e9)


def test_one_node_of_a_cluster_is_a_plain_link() -> None:
    for ranks in (1, 2, 4):
        plain = Link(name="c", alpha=1e-5, beta=1e9)
        assert cluster().all_reduce_seconds(10**6, ranks) == plain.all_reduce_seconds(10**6, ranks)
        assert cluster().all_to_all_seconds(10**6, ranks) == plain.all_to_all_seconds(10**6, ranks)
        assert cluster().all_gather_seconds(10**6, ranks) == plain.all_gather_seconds(10**6, ranks)


def test_several_nodes_reduce_inside_and_between() -> None:
    inside = 2 * 3 * 1e-5 + 2 * 3 / 4 * 1e6 / 1e9
    between = 2 * 2 * 1e-4 + 2 * 2 / 3 * 1e6 / 2e9
    assert cluster().all_reduce_seconds(10**6, 12) == pytest.approx(inside + between)
    assert cluster().all_to_all_seconds(10**6, 8) == pytest.approx(
        3e-5 + 0.75e-3 + 1e-4 + 0.5 * 4e6 / 2e9
    )  # the node's four GPUs share its interface
    assert 1 / cluster().all_reduce_rate(12) == pytest.approx(2 * 3 / 4 / 1e9 + 2 * 2 / 3 / 2e9)


def test_a_link_that_carries_more_or_is_slower() -> None:
    for link in (Link(name="l", alpha=1e-5, beta=1e9), cluster()):
        assert link.carrying(10).all_reduce_seconds(10**5, 8) == pytest.approx(link.all_reduce_seconds(10**6, 8))
        assert link.stretched(3).all_reduce_seconds(10**6, 8) == pytest.approx(3 * link.all_reduce_seconds(10**6, 8))
        assert 1e9 / link.all_reduce_rate(8) == pytest.approx(
            link.all_reduce_seconds(2 * 10**9, 8) - link.all_reduce_seconds(10**9, 8)
        )


def test_a_cluster_that_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="at least one GPU"):
        ClusterLink(name="c", per_node=0, across_alpha=0.0, across_beta=1.0)
