"""Gloo between hosts: one clock from round trips, joins exchanged after the run, cuts compared beside it."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from odin.comm.cuts import StoreCuts
from odin.comm.hosts import HostClock, round_trips
from odin.comm.spread import SpreadKeeper, SpreadTransport
from odin.comm.transport import Reduction
from odin.errors import RunError
from tests.odin.processes import Ranks, run_processes

BEHIND = 1000.0  # seconds that each rank's clock is behind the one before it


def clock_of(rank: int) -> float:
    return time.monotonic() - BEHIND * rank


def spread_run(here: Ranks) -> dict:
    """Three sums on hosts whose clocks differ by far; the same sums with shared stamps are the reference."""
    found = {}
    for reduction in Reduction:
        hosts = HostClock(lambda: round_trips(lambda: clock_of(here.rank)))
        cuts = StoreCuts(dist.PrefixStore(reduction.value, dist.FileStore(str(here.folder / "cuts"), here.ranks)),
                         here.rank, here.ranks)  # fmt: skip
        spread = SpreadTransport(here.group, cuts, hosts, reduction)
        keeper, plain = SpreadKeeper(), here.transport(reduction.value, reduction)
        sums, reference, lasts = [], [], []
        for k in range(3):
            values = torch.full((5,), 0.1 * (here.rank + 1) + k)
            spread.agree(k, 7)
            time.sleep(0.02 * ((here.rank + k) % here.ranks))
            moment = time.monotonic()
            keeper.wait(spread.all_reduce(values, moment - BEHIND * here.rank), f"sum {k}")
            sums.append(values.tolist())
            again = torch.full((5,), 0.1 * (here.rank + 1) + k)
            arrival = plain.all_reduce(again, moment).wait()
            reference.append(again.tolist())
            lasts.append(arrival.last_join)
        before = [entry.last_join for entry in keeper.entries]
        # What was seen is on the real clock here, but joins are not: put both on the rank's own.
        for one in spread._launched:
            one.seen -= BEHIND * here.rank
        spread.settle()
        whole = keeper.completed(keeper.entries)
        spread.close()
        plain.close()
        found[reduction.value] = {
            "sums": (sums, reference), "before": before, "lasts": lasts, "error": hosts.uncertainty,
            "settled": [hosts.common(e.last_join) for e in whole if e.kind == "wait"],
            "ordered": all(e.last_join <= e.end for e in whole if e.kind == "collective"),
        }  # fmt: skip
    return found


def test_sums_and_last_joins_are_those_of_shared_stamps(tmp_path: Path) -> None:
    everyone = run_processes(3, spread_run, tmp_path)
    error = max(run["error"] for found in everyone for run in found.values())
    assert 0 < error < 0.1
    for found in everyone:
        for run in found.values():
            assert run["sums"][0] == run["sums"][1]
            assert all(np.isnan(run["before"]))
            # Rank 0's clock is the real one, so common moments are those of the stamps.
            assert run["settled"] == pytest.approx(run["lasts"], abs=4 * error)
            assert run["ordered"]


@given(st.lists(st.floats(-1e-3, 1e-3), min_size=1, max_size=4), st.floats(-10, 100))
def test_clocks_translate_back_and_forth(drifts: list[float], moment: float) -> None:
    anchors = iter([(10.0 * k, 5.0 + drift, 1e-4 * (k + 1)) for k, drift in enumerate(drifts)])
    clock = HostClock(lambda: next(anchors))
    for _ in drifts:
        clock.anchor()
    assert clock.own(clock.common(moment)) == pytest.approx(moment, abs=1e-6)
    assert clock.common(moment) == pytest.approx(moment + 5.0, abs=1.1e-3)
    assert clock.uncertainty == pytest.approx(1e-4 * len(drifts))


def cuts(ranks: int) -> tuple[dist.HashStore, list[StoreCuts]]:
    store = dist.HashStore()
    return store, [StoreCuts(store, rank, ranks) for rank in range(ranks)]


def test_ranks_that_cut_alike_agree_and_leave_little_behind() -> None:
    store, ranks = cuts(3)
    for step in range(40):
        for rank, one in enumerate(ranks):
            one.agree(step, rank, step * 7)
    for one in ranks:
        one.compare_all()
    assert store.num_keys() <= 3 * 16
    two = cuts(2)[1]
    two[0].agree(0, 0, 0)  # the other one never says it: nothing to find, and nothing hangs
    two[0].close()
    two[1].close()


@pytest.mark.parametrize("odd", [0, 1, 2])
def test_a_rank_that_cut_otherwise_is_named_with_a_neighbour(odd: int) -> None:
    _, ranks = cuts(3)
    for rank, one in enumerate(ranks):
        one.agree(4, rank, 9 if rank == odd else 8)
    said = []
    for one in ranks:
        try:
            one.compare_all()
        except RunError as error:
            said.append(str(error))
    assert said and all(f"Ranks {odd} and" in text or f"and {odd} have" in text for text in said)
    assert all("step 4" in text for text in said)
