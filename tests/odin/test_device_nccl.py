"""The NCCL transport and its time keeping on stand-in streams: arrivals are read late, and a dead rank is named."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.distributed as dist

from odin.arms import ARMS
from odin.comm.hosts import HostClock
from odin.comm.nccl import NcclCommunicator
from odin.comm.transport import Arrival
from odin.comm.watchdog import Watchdog
from odin.device.clock import EventClock
from odin.device.keeper import StreamKeeper
from odin.device.standin import LoggedStreams
from odin.device.streams import Lane
from odin.errors import InputError, RunError
from odin.mixed.owners import Owners
from odin.phases import Phase
from odin.recipe import Event
from odin.runtime import Runtime
from tests.odin import test_exactness
from tests.odin.discipline import host_waits, launched_before_written, strangers_on_communication
from tests.odin.standins import Rank, run_device_ranks
from tests.odin.test_exactness import VIEWS, digest, long_run, make_plan
from tests.odin.toy import ToyRecipe


@pytest.mark.parametrize("arm", ["barrier-planned", "quality", "predicted"])
def test_every_policy_waits_where_it_must(arm: str) -> None:
    # The stand-in holds sums back until somebody waits, so a policy that reads too early has other bits.
    plan, events = long_run()
    expected_runs, expected, _ = test_exactness.train(arm, plan, events)

    def main(rank: Rank) -> tuple[Rank, ToyRecipe, Runtime]:
        recipe = ToyRecipe(60, VIEWS, events)
        runtime = Runtime(recipe, plan, ARMS[arm], rank.transport, rank.keeper)
        runtime.run()
        rank.transport.settle()
        rank.keeper.resolve()
        return rank, recipe, runtime

    results = run_device_ranks(2, main, store=dist.HashStore())
    assert digest([recipe for _, recipe, _ in results]) == digest(expected)
    for (rank, _, runtime), host in zip(results, expected_runs, strict=True):
        assert strangers_on_communication(rank.streams.log) == launched_before_written(rank.streams.log) == []
        ours, theirs = rank.keeper, host.keeper
        assert [(e.step, e.kind, e.name) for e in ours.entries] == [(e.step, e.kind, e.name) for e in theirs.entries]
        assert ours.points == theirs.points
        assert all(ours.entries[p].kind == "wait" for p in ours.points)
        assert len(ours.moments) == len(runtime.records) + 1
        assert ours.moments == sorted(ours.moments)


def timed_cell(rank: Rank) -> list[Arrival]:
    """Three collectives, rank 1 late for the second; arrivals as settled."""
    keeper, arrivals = rank.keeper, []
    keeper.begin()
    for k in range(3):
        keeper.step = k
        with keeper.phase(Phase.BLEND):
            time.sleep(0.2 if (k, rank.rank) == (1, 1) else 0.001)
        values = torch.full((4,), float(rank.rank + k))
        handle = rank.transport.all_reduce(values, keeper.join())
        arrivals.append(keeper.wait(handle, "all"))
        assert values.tolist() == [2 * k + 1.0] * 4
        with pytest.raises(AssertionError, match="before the transport was settled"):
            arrivals[-1].resolve()
        keeper.now()
    assert host_waits(rank.streams.log[-3:]) == []
    rank.transport.settle()
    keeper.resolve()
    return [arrival.resolve() for arrival in arrivals]


def offset_clock(rank: int):
    """A device's own time: from another origin, and 1 % fast on rank 1."""
    return lambda: (time.monotonic() - 1000 * rank) * (1 + 0.01 * rank)


def test_arrivals_are_on_the_hosts_clock() -> None:
    before = time.monotonic()
    first, second = run_device_ranks(2, timed_cell, store=dist.HashStore(), clocks=offset_clock)
    after = time.monotonic()
    for own, other in zip(first, second, strict=True):
        assert before <= own.joined <= own.last_join <= own.start <= own.finish == own.real <= after
        assert own.last_join == pytest.approx(max(own.joined, other.joined), abs=5e-3)
    for a, b in pairwise(first):
        assert b.start >= a.finish
    assert second[1].joined - first[1].joined > 0.05, "rank 1 was late for the second collective"


def test_joins_of_several_hosts_are_compared_on_one_clock() -> None:
    """Rank 1's clock is 1000 s ahead and it joins a second later; both learn that, each on its own clock."""

    def main(rank: Rank) -> list[float]:
        ahead = 1000.0 * rank.rank
        rank.transport._hosts = HostClock(lambda: (time.monotonic(), -ahead, 0.0))
        return rank.transport._last_of_all(torch.tensor([10.0 + ahead + rank.rank], dtype=torch.float64)).tolist()

    assert run_device_ranks(2, main, store=dist.HashStore()) == [[11.0], [1011.0]]


def test_the_timeline_is_complete_after_resolving() -> None:
    def main(rank: Rank) -> StreamKeeper:
        timed_cell(rank)
        timed_cell(rank)  # settling between steps keeps what is numbered
        return rank.keeper

    keeper, _ = run_device_ranks(2, main, store=dist.HashStore())
    assert [e.name for e in keeper.entries] == ["blend", "all", "all"] * 6
    assert [e.step for e in keeper.entries] == [k // 3 for k in range(9)] * 2
    assert keeper.points == [1, 4, 7, 10, 13, 16]
    assert len(keeper.moments) == 8
    for phase, wait, collective in zip(*[iter(keeper.entries)] * 3, strict=True):
        assert phase.start < phase.end <= wait.start <= wait.end
        assert wait.last_join == collective.last_join
        assert (collective.nbytes, collective.end >= collective.start) == (16, True)


def test_an_event_before_the_clock_is_anchored_is_refused() -> None:
    clock = EventClock(LoggedStreams())
    with pytest.raises(AssertionError, match="before the clock was anchored"):
        clock.stamp(Lane.COMPUTE)
    clock.anchor()
    stamp = clock.stamp(Lane.COMPUTE)
    with pytest.raises(AssertionError, match="anchored after"):
        clock.moment(stamp)


def test_a_clock_of_another_rate_is_corrected() -> None:
    clock = EventClock(LoggedStreams(lambda: 5.0 + 0.9 * time.monotonic()))
    clock.anchor()
    seen = []
    for _ in range(5):
        time.sleep(0.05)
        seen.append((time.monotonic(), clock.stamp(Lane.COMPUTE), time.monotonic()))
    clock.anchor()
    for before, stamp, after in seen:
        assert before - 5e-3 <= clock.moment(stamp) <= after + 5e-3


def test_statistics_at_once() -> None:
    def main(rank: Rank) -> tuple[list[int], float]:
        counts, most = torch.tensor([rank.rank, 1]), torch.tensor(float(rank.rank))
        rank.transport.reduce_now(counts)
        rank.transport.reduce_now(most, "max")
        rank.transport.barrier()
        return counts.tolist(), float(most)

    assert run_device_ranks(3, main, store=dist.HashStore()) == [([3, 3], 2.0)] * 3


def test_control_waits_for_the_gradients_ahead_of_it() -> None:
    def main(rank: Rank) -> list[str]:
        rank.keeper.begin()
        rank.transport.all_reduce(torch.ones(2), 0.0)
        start = len(rank.streams.log)
        rank.transport.barrier()
        return [op.name for op in rank.streams.log[start:]]

    assert run_device_ranks(2, main, store=dist.HashStore()) == [["wait_event", "all_reduce", "record"]] * 2


def test_a_dead_rank_is_named() -> None:
    def main(rank: Rank) -> None:
        rank.keeper.begin()
        if rank.rank == 1:
            return
        for _ in range(2):
            handle = rank.transport.all_reduce(torch.ones(2), 0.0)
            rank.keeper.wait(handle, "all")

    with pytest.raises(
        RunError, match=r"Collective 0 \(gradients, 8 bytes\) did .* rank\(s\) \[1\] gave no sign of life"
    ):
        run_device_ranks(2, main, store=dist.HashStore(), patience=0.2)


def run_beside_a_stuck_rank(
    go_on: Callable[[Rank], object], launch: Callable[[Rank], object] | None = None, *, patience: float = 0.5
) -> None:
    """Both ranks `launch`, if anything; rank 1 goes no further, rank 0 goes on. Raises what rank 0 is told."""
    over, both = threading.Event(), threading.Barrier(2)

    def main(rank: Rank) -> None:
        rank.keeper.begin()
        if launch is not None:
            launch(rank)
        both.wait(60)
        if rank.rank == 1:
            over.wait(60)
            return
        try:
            go_on(rank)
        finally:
            over.set()

    run_device_ranks(2, main, store=dist.HashStore(), patience=patience)


def settle(rank: Rank) -> None:
    rank.transport.settle()


def test_a_rank_that_is_stuck_elsewhere_is_named() -> None:
    def go_on(rank: Rank) -> None:
        rank.transport.all_reduce(torch.ones(2), 0.0)
        rank.transport.barrier()

    with pytest.raises(RunError, match=r"rank\(s\) \[1\] are alive but never launched it"):
        run_beside_a_stuck_rank(go_on, patience=0.2)


def test_collectives_in_another_order_are_named() -> None:
    def launch(rank: Rank) -> None:
        rank.transport.all_reduce(torch.ones(2 + rank.rank), 0.0)

    expected = r"Collective 0 \(gradients, 8 bytes\) .* rank 1 launched another in its place \(gradients, 12 bytes\)"
    with pytest.raises(RunError, match=expected):
        run_beside_a_stuck_rank(settle, launch)


def test_ranks_that_send_unlike_amounts_are_not_taken_for_ones_gone_astray() -> None:
    sizes = np.array([[0, 3], [1, 0]])

    def launch(rank: Rank) -> None:
        own, other = sizes[rank.rank].sum(), sizes[:, rank.rank].sum()
        rank.transport.all_to_all(torch.ones(own, 2), torch.zeros(other, 2), sizes, 0.0)

    with pytest.raises(RunError, match=r"Collective 0 \(rows, 32 bytes in all\)") as told:
        run_beside_a_stuck_rank(settle, launch)
    assert "in its place" not in str(told.value)


def test_what_an_abandoned_collection_left_is_not_believed() -> None:
    with pytest.raises(RunError, match=r"Collective 0 \(facts, 8 bytes\)"):
        run_beside_a_stuck_rank(lambda rank: Owners(rank.transport, rank.keeper).counts(7))


class NoStore:
    """The server of the store is gone."""

    def check(self, keys):
        raise RuntimeError("connection reset")

    def get(self, key):
        raise RuntimeError("connection reset")

    def set(self, key, value):
        raise RuntimeError("connection reset")


def test_a_store_without_its_server_is_no_riddle() -> None:
    aborted = []
    watchdog = Watchdog(NoStore(), 1, 2, patience=0.0, abort=lambda: aborted.append(1))
    watchdog.watch("gradients", lambda: False)
    time.sleep(0.01)
    watchdog.look()
    assert aborted == [1]
    with pytest.raises(RunError, match="normally 0, is gone"):
        watchdog.check()


def test_complete_collectives_are_forgotten() -> None:
    store, done = dist.HashStore(), [True, False]
    watchdog = Watchdog(store, 0, 1, patience=0.05, abort=lambda: None, grace=0.1)
    for flag in range(2):
        watchdog.watch("gradients", lambda flag=flag: done[flag])
    watchdog.look()
    watchdog.check()
    time.sleep(0.1)
    done[1] = True
    watchdog.look()
    watchdog.check()
    watchdog.watch("control", lambda: False)
    time.sleep(0.1)
    watchdog.look()
    with pytest.raises(
        RunError, match=r"Collective 2 \(control\).*every rank has launched it, so the interconnect is stuck"
    ):
        watchdog.check()


def test_a_setting_that_would_block_the_host_is_refused(monkeypatch) -> None:
    monkeypatch.setenv("TORCH_NCCL_BLOCKING_WAIT", "1")
    with pytest.raises(InputError, match="Unset it"):
        NcclCommunicator("gradients", dist.HashStore(), 0, 1, timedelta(seconds=1))


@pytest.mark.skipif(torch.cuda.is_available(), reason="tests/odin/test_device_gpu.py connects instead")
def test_only_the_device_is_missing() -> None:
    with pytest.raises((RuntimeError, ValueError), match="GPU"):
        NcclCommunicator("gradients", dist.HashStore(), 0, 1, timedelta(seconds=1))


def test_structural_events_settle_between_steps() -> None:
    # Nothing of a cell has to be kept until its end: where all is published, events can be read and dropped.
    events = [Event.NONE, Event.RESET, Event.NONE, Event.NONE]
    plan = make_plan(4, 2, 1, events, seed=1)

    def main(rank: Rank) -> int:
        runtime = Runtime(ToyRecipe(20, VIEWS, events), plan, ARMS["quality"], rank.transport, rank.keeper)

        def on_step(record) -> None:
            if record.structural:
                rank.transport.settle()
                rank.keeper.resolve()
                assert len(rank.keeper.moments) == 3

        runtime.run(on_step=on_step)
        rank.transport.settle()
        rank.keeper.resolve()
        return len(rank.keeper.moments)

    assert run_device_ranks(2, main, store=dist.HashStore()) == [5, 5]
