"""Rows between ranks: all-to-all of unequal parts and all-gather, on threads and on real gloo processes."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.run.together import run_threads
from odin.comm.link import UNSHAPED, ClusterLink, Link
from odin.comm.transport import Arrival, ExchangeTransport, Handle, Reduction, SingleRank
from odin.comm.virtual import Exchange, VirtualTransport
from tests.odin.processes import Ranks, run_processes

COLUMNS = 3


def rows_of(rank: int, count: int) -> torch.Tensor:
    """Rows that tell who sent them and where they stood."""
    out = torch.empty(count, COLUMNS)
    out[:, 0], out[:, 1], out[:, 2] = rank, torch.arange(count), 0.5
    return out


def moved(transport: ExchangeTransport, sizes: np.ndarray, joined: float) -> tuple[torch.Tensor, Handle]:
    rank = transport.rank
    received = torch.empty(int(sizes[:, rank].sum()), COLUMNS)
    return received, transport.all_to_all(rows_of(rank, int(sizes[rank].sum())), received, sizes, joined)


def expected(sizes: np.ndarray, rank: int) -> torch.Tensor:
    parts = []
    for source in range(len(sizes)):
        start = int(sizes[source, :rank].sum())
        parts.append(rows_of(source, int(sizes[source].sum()))[start : start + int(sizes[source, rank])])
    return torch.cat(parts)


def sizes_of(ranks: int, seed: int) -> np.ndarray:
    """Some parts are empty, and with seed 0 all but one."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 6, (ranks, ranks)) * rng.integers(0, 2, (ranks, ranks))
    return sizes if seed else np.eye(ranks, k=1, dtype=np.int64)


def exercise(transport: ExchangeTransport) -> None:
    """Several exchanges in flight at once, waited for out of order."""
    ranks, rank = transport.ranks, transport.rank
    every = [sizes_of(ranks, seed) for seed in range(4)]
    found = [moved(transport, sizes, time.monotonic()) for sizes in every]
    gathered = torch.empty(ranks, 2, dtype=torch.int64)
    gather = transport.all_gather(torch.tensor([rank, rank * rank]), gathered, time.monotonic())
    gather.wait()
    assert gathered.tolist() == [[r, r * r] for r in range(ranks)]
    for sizes, (received, handle) in reversed(list(zip(every, found, strict=True))):
        handle.wait()
        assert torch.equal(received, expected(sizes, rank))
        assert handle.nbytes == 4 * COLUMNS * (sizes[rank].sum() - sizes[rank, rank])
        assert handle.wait().last_join > 0


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_rows_arrive_in_rank_order_on_threads(ranks: int) -> None:
    run_threads(ranks, UNSHAPED, exercise)


def test_one_rank_keeps_its_rows() -> None:
    exercise(SingleRank())


def in_process(here: Ranks) -> dict:
    transport = here.transport("exchange", Reduction.NATIVE)
    exercise(transport)
    slow = here.transport("slow", Reduction.NATIVE, Link(name="slow", alpha=1e-3, beta=1e4))
    sizes = np.array([[0, 10], [40, 5]])
    _, first = moved(slow, sizes, time.monotonic())
    gathered = torch.empty(2, 25)
    second = slow.all_gather(torch.ones(25), gathered, time.monotonic()).wait()
    return {"exchange": span(first.wait()), "gather": span(second)}


def span(arrival: Arrival) -> tuple[float, float]:
    return arrival.start, arrival.finish


def test_rows_arrive_on_gloo_and_the_link_is_one_queue(tmp_path: Path) -> None:
    for seen in run_processes(2, in_process, tmp_path):
        (start, finish), (gather_start, gather_finish) = seen["exchange"], seen["gather"]
        assert finish - start == pytest.approx(1e-3 + 40 * 4 * COLUMNS / 1e4)
        assert gather_start == pytest.approx(finish)
        assert gather_finish - gather_start == pytest.approx(1e-3 + 100 / 1e4)


def test_virtual_times_follow_the_link() -> None:
    link = Link(name="x", alpha=0.5, beta=120.0)
    sizes = np.array([[7, 10, 0], [0, 0, 20], [5, 0, 0]])

    def rank(transport: VirtualTransport) -> tuple[float, float]:
        _, handle = moved(transport, sizes, 2.0 + transport.rank)
        gathered = torch.empty(3, 10)
        gather = transport.all_gather(torch.zeros(10), gathered, 3.0)
        return handle.wait().finish, gather.wait().finish

    # Rank 1 sends most, 20 rows of 12 bytes; the last rank joins at 4. An all-gather of 120 bytes: 2·0.5 + 2/3.
    assert run_threads(3, link, rank) == [(7.0, pytest.approx(7.0 + 1.0 + 2 / 3))] * 3


@given(ranks=st.integers(1, 12), per_node=st.integers(1, 12), part=st.integers(0, 10**6), alpha=st.floats(0, 1e-2))
def test_equal_parts_cost_an_all_to_all(ranks: int, per_node: int, part: int, alpha: float) -> None:
    sizes = np.full((ranks, ranks), part)
    plain = Link(name="x", alpha=alpha, beta=1e9)
    assert plain.exchange_seconds(sizes) == pytest.approx(plain.all_to_all_seconds(ranks * part, ranks))
    if ranks % per_node == 0:
        cluster = ClusterLink(
            name="x", alpha=alpha, beta=1e9, per_node=per_node, across_alpha=2 * alpha, across_beta=2e8
        )
        assert cluster.exchange_seconds(sizes) == pytest.approx(cluster.all_to_all_seconds(ranks * part, ranks))


def test_one_interface_carries_what_a_node_sends() -> None:
    cluster = ClusterLink(name="x", beta=1e3, per_node=2, across_alpha=0.0, across_beta=10.0)
    sizes = np.zeros((4, 4), np.int64)
    sizes[0, 2], sizes[1, 3], sizes[3, 2] = 30, 50, 1000
    assert cluster.exchange_seconds(sizes) == pytest.approx(1000 / 1e3 + 80 / 10)


@pytest.mark.parametrize("wrong", [np.array([[2, 1], [0, 0]]), np.array([[0, 3], [2, 1]])])
def test_sizes_that_do_not_fit_are_refused(wrong: np.ndarray) -> None:
    exchange = Exchange(2, UNSHAPED)
    transport = VirtualTransport(exchange, Exchange(2, UNSHAPED), 0)
    with pytest.raises(ValueError, match="sizes say"):
        transport.all_to_all(rows_of(0, 3), rows_of(0, 1), wrong, 0.0)
    with pytest.raises(ValueError, match="received as"):
        transport.all_to_all(rows_of(0, 3), torch.empty(0, 2), np.array([[0, 3], [0, 0]]), 0.0)
