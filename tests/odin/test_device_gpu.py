"""The device side on a CUDA device: `pytest -m gpu tests/odin/test_device_gpu.py`.

What the CPU tests show with stand-ins, on the real thing: bits, no host synchronisation, order of the lanes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import numpy as np
import pytest
import torch
import torch.distributed as dist

from odin.comm.nccl import Communicators, NcclTransport, connect
from odin.comm.watchdog import Watchdog
from odin.device.clock import EventClock
from odin.device.keeper import StreamKeeper
from odin.device.streams import CudaStreams, Lane
from odin.phases import Phase
from tests.odin import test_device_rows as rows
from tests.odin import test_device_slot as slot
from tests.odin.device_training import DeviceTraining, written
from tests.odin.standins import Rank
from tests.odin.test_rows import sparse_gradients

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
# About 50 ms of work that nothing can overtake on its lane.
CYCLES = 100_000_000


@contextmanager
def refusing_syncs() -> Iterator[None]:
    """torch raises where the host would wait for the device."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.fixture(scope="module")
def device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device())


@pytest.fixture(scope="module")
def communicators(device: torch.device) -> Communicators:
    return connect(dist.HashStore(), 0, 1, device, timedelta(seconds=60))


@pytest.fixture
def rank(device: torch.device, communicators: Communicators) -> Iterator[Rank]:
    streams = CudaStreams(device)
    clock = EventClock(streams)
    watchdog = Watchdog(dist.HashStore(), 0, 1, patience=60.0, abort=communicators.abort)
    transport = NcclTransport(0, 1, communicators, clock, watchdog)
    yield Rank(0, 1, streams, clock, transport, StreamKeeper(clock, transport.settle))
    transport.close()


def test_rows_have_the_bits_of_the_numba_kernel(device: torch.device) -> None:
    a, b = rows.train_both(sparse_gradients(300, 100, 1), np.linspace(1e-4, 5e-2, 59), device)
    assert rows.same_bits(b, a)


@pytest.mark.parametrize("seed", range(5))
def test_any_split_of_rows_gives_the_same_bits(seed: int, device: torch.device) -> None:
    assert rows.same_bits(*rows.split_and_whole(seed, 4, device))


@pytest.mark.parametrize("seed", range(5))
def test_the_same_slot_as_on_the_host(seed: int, device: torch.device) -> None:
    slot.assert_equal_slots(*slot.both_slots(30, seed, device))


@pytest.mark.parametrize("calls", [rows.every_call, slot.every_call])
def test_rows_and_slot_never_make_the_host_wait(calls, device: torch.device) -> None:
    calls(device)  # page-locked memory is allocated on first use
    with refusing_syncs():
        calls(device)


def test_a_sum_of_one_rank_is_the_tensor_itself(rank: Rank) -> None:
    rank.keeper.begin()
    values = torch.arange(1000, device=rank.streams.device, dtype=torch.float32)
    arrival = rank.keeper.wait(rank.transport.all_reduce(values, rank.keeper.join()), "all")
    assert values.tolist() == list(range(1000))
    rank.transport.settle()
    rank.keeper.resolve()
    assert arrival.joined == arrival.last_join <= arrival.start <= arrival.finish
    assert [e.name for e in rank.keeper.entries] == ["all", "all"]
    host = torch.tensor([3.0])
    rank.transport.reduce_now(host, "max")
    assert host.tolist() == [3.0]


def test_a_collective_waits_for_the_write_and_a_read_for_the_collective(rank: Rank) -> None:
    values = torch.zeros(1 << 20, device=rank.streams.device)
    warm = values.clone().fill_(0.0)  # loading a kernel on first use may wait for the device
    rank.transport.barrier()
    torch.cuda._sleep(1)
    rank.keeper.begin()
    rank.keeper.wait(rank.transport.all_reduce(warm, 0.0), "warm")
    begun = time.monotonic()
    with refusing_syncs():
        with rank.keeper.phase(Phase.BLEND_BACKWARD):
            torch.cuda._sleep(CYCLES)
            values.fill_(2.0)
        handle = rank.transport.all_reduce(values, rank.keeper.join())
        with rank.keeper.phase(Phase.BLEND):  # overlaps with the collective
            torch.cuda._sleep(CYCLES)
        arrival = rank.keeper.wait(handle, "all")
        read = values.clone()
    issued = time.monotonic() - begun
    rank.transport.settle()
    rank.keeper.resolve()
    assert bool((read == 2.0).all())
    backward, blend, wait, _ = rank.keeper.entries[2:]
    assert issued < backward.end - backward.start, "the host went ahead of the device"
    assert arrival.joined >= backward.end - 1e-4
    assert arrival.finish <= blend.end, "the collective ran beside the next phase"
    assert wait.start >= blend.end - 1e-4


def test_the_lanes_are_two_streams(rank: Rank) -> None:
    streams = rank.streams
    assert streams.current_stream() is Lane.COMPUTE
    with streams.on(Lane.COMMUNICATION):
        assert streams.current_stream() is Lane.COMMUNICATION
        torch.cuda._sleep(CYCLES)
    slow, quick = streams.record(Lane.COMMUNICATION), streams.record(Lane.COMPUTE)
    streams.synchronize(quick)
    assert not streams.reached(slow), "COMPUTE does not wait for COMMUNICATION unless told to"
    streams.wait_event(Lane.COMPUTE, slow)
    behind = streams.record(Lane.COMPUTE)
    streams.synchronize(behind)
    assert streams.reached(slow)
    assert streams.elapsed(quick, slow) > 0 > streams.elapsed(slow, quick)


def test_events_are_on_the_hosts_clock(device: torch.device) -> None:
    streams = CudaStreams(device)
    clock = EventClock(streams)
    clock.anchor()
    seen = []
    for _ in range(5):
        stamp = clock.stamp(Lane.COMPUTE)
        streams.synchronize(stamp.event)
        seen.append((time.monotonic(), stamp))
        time.sleep(0.02)
    clock.anchor()
    for moment, stamp in seen:
        assert clock.moment(stamp) == pytest.approx(moment, abs=5e-3)


@pytest.mark.parametrize("seed", range(3))
def test_overlapped_training_gives_the_bits_of_waiting(seed: int, rank: Rank) -> None:
    bits = []
    for overlap in (False, True, True):
        training = DeviceTraining(rank, written(6, seed), overlap=overlap)
        rank.keeper.begin()
        bits.append(training.run())
        rank.transport.settle()
        rank.keeper.resolve()
    assert len(set(bits)) == 1
    assert rank.keeper.moments == sorted(rank.keeper.moments)


def test_a_step_never_makes_the_host_wait(rank: Rank) -> None:
    training = DeviceTraining(rank, written(6, 3), overlap=True)
    rank.keeper.begin()
    training.step(0)
    with refusing_syncs():
        for t in range(1, 5):
            training.step(t)
    rank.transport.settle()
