"""Histograms of delayed rows: what is counted, and that it is counted on all ranks."""

from __future__ import annotations

import numpy as np

from odin.comm.transport import SingleRank
from odin.publication.delays import LOWEST, OCTAVES, Delays, delays, octaves, sum_over_ranks
from tests.odin.test_exactness import long_run, train
from tests.odin.threads import run_ranks


def account(step: int, local: list[float]) -> Delays:
    return delays(
        step,
        mean=2.0,
        local=np.array(local, np.float32),
        reduced=np.array([2.0, 0.0, 8.0], np.float32),
        moved=np.full((3, 2), 0.5, np.float32),
        lr=np.array([0.5, 0.5]),
    )


def test_octaves_hold_their_lower_edge() -> None:
    counts, without = octaves(np.array([0.0, -1.0, 1.0, 1.99, 2.0, 1e-9, 1e9]))
    assert without == 2 and counts.shape == (OCTAVES,)
    assert counts[-LOWEST] == 2 and counts[1 - LOWEST] == 1
    assert counts[0] == counts[-1] == 1


def test_an_account_by_hand() -> None:
    one = account(4, [2.0, 2.0, 0.0])
    assert one.local[-LOWEST] == 2 and one.reduced[-LOWEST] == 1 and one.reduced[2 - LOWEST] == 1
    assert one.update[-LOWEST] == 3
    assert one.without == (1, 1, 0)


def test_local_norms_are_counted_on_all_ranks() -> None:
    seen = [[2.0, 2.0, 0.0], [4.0, 0.0, 0.0]]

    def main(transport) -> list[Delays]:
        return sum_over_ranks([account(step, seen[transport.rank]) for step in (4, 5)], transport)

    for mine in run_ranks(2, main)[0]:
        assert [w.step for w in mine] == [4, 5]
        for w in mine:
            assert w.local[-LOWEST] == 2 and w.local[1 - LOWEST] == 1 and w.local.sum() == 3
            assert w.without == (3, 1, 0)
            assert np.array_equal(w.reduced, account(4, seen[0]).reduced)
    assert sum_over_ranks([], SingleRank()) == []


def test_ranks_have_accounts_of_the_same_windows() -> None:
    plan, events = long_run()
    runs, _, _ = train("throughput:histograms=on:tau=0.8", plan, events)
    first, second = (run.publication.delays for run in runs)
    assert first and [w.step for w in first] == [w.step for w in second]
    assert all(np.array_equal(a.reduced, b.reduced) for a, b in zip(first, second, strict=True))
