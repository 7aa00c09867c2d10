"""Overlapped training on two lanes: the bits of waiting, and nothing out of order in the log."""

from __future__ import annotations

import pytest
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.device.rows import apply_gradient
from odin.device.standin import LoggedStreams, Operation
from odin.device.streams import Lane
from tests.odin.device_training import DeviceTraining, written
from tests.odin.discipline import Recorder, violations
from tests.odin.standins import Rank, run_device_ranks
from tests.odin.sync import NoHostCopy, NoHostSync


def train(steps: int, seed: int, *, overlap: bool = True, kind: type[DeviceTraining] = DeviceTraining):
    """Bits and log of every rank's steps."""

    def main(rank: Rank) -> tuple[bytes, list[Operation]]:
        training = kind(rank, written(steps, seed), overlap=overlap)
        rank.keeper.begin()
        start = len(rank.streams.log)
        with Recorder(rank.streams):
            bits = training.run()
        log = rank.streams.log[start:]
        rank.transport.settle()
        rank.keeper.resolve()
        return bits, log

    return run_device_ranks(2, main, store=dist.HashStore())


@settings(max_examples=8, deadline=None)
@given(steps=st.integers(1, 5), seed=st.integers(0, 99))
def test_overlap_gives_the_bits_of_waiting(steps: int, seed: int) -> None:
    waited, overlapped = train(steps, seed, overlap=False), train(steps, seed)
    assert len({bits for bits, _ in waited + overlapped}) == 1
    for _, log in overlapped + waited:
        assert violations(log) == {}


def test_no_operation_waits_for_a_value() -> None:
    def main(rank: Rank) -> None:
        training = DeviceTraining(rank, written(4, 3), overlap=True)
        rank.keeper.begin()
        with NoHostSync(), NoHostCopy():
            for t in range(4):
                training.step(t)

    run_device_ranks(2, main, store=dist.HashStore())


class ForgetsToWait(DeviceTraining):
    """Applies the urgent rows when it likes."""

    def publish(self, name: str) -> None:
        if name == "urgent" and self.pending and self.pending[0][2]:
            update, slot, launched = self.pending[0]
            _, handle, ids = launched.popleft()
            apply_gradient(self.state, update, self.rows(ids), slot.values, slot.offsets)
            launched.appendleft((slot.segments[0], handle, ids[:0]))
        super().publish(name)


class LaunchesTooEarly(DeviceTraining):
    """The ready event is recorded before the last view's gradient is added."""

    def backward(self, slot, ids) -> None:
        record = self.rank.streams.record
        stale = record(Lane.COMPUTE)
        super().backward(slot, ids)
        waits = self.rank.streams.wait_event
        self.rank.streams.wait_event = lambda lane, event: waits(lane, stale if lane is Lane.COMMUNICATION else event)


class UpdatesOnTheWrongLane(DeviceTraining):
    """The row kernel runs on the communication stream."""

    def publish(self, name: str) -> None:
        with self.rank.streams.on(Lane.COMMUNICATION):
            super().publish(name)


class Synchronises(DeviceTraining):
    """The host waits for the step to end."""

    def step(self, t: int) -> None:
        super().step(t)
        self.rank.streams.synchronize(self.rank.streams.record(Lane.COMPUTE))


@pytest.mark.parametrize(
    ("mutant", "found"),
    [
        (ForgetsToWait, "touched_before_arrival"),
        (LaunchesTooEarly, "launched_before_written"),
        (UpdatesOnTheWrongLane, "strangers_on_communication"),
        (Synchronises, "host_waits"),
    ],
)
def test_mutants_are_caught(mutant: type[DeviceTraining], found: str) -> None:
    for _, log in train(4, 3, kind=mutant):
        assert found in violations(log)


def test_a_missing_wait_changes_the_result() -> None:
    # The stand-in delays sums as long as it may, so the mistake shows in the numbers as well.
    (right, _), *_ = train(4, 3)
    (wrong, _), *_ = train(4, 3, kind=ForgetsToWait)
    assert wrong != right


def test_the_lane_runs_when_somebody_waits() -> None:
    streams, done = LoggedStreams(), []
    streams.enqueue(Lane.COMMUNICATION, lambda: done.append(1) is None)
    event = streams.record(Lane.COMMUNICATION)
    assert done == []
    streams.wait_event(Lane.COMPUTE, event)
    assert done == [1]
    assert event.query()
    assert [op.name for op in streams.log] == ["record", "wait_event"]


def test_training_in_miniature_has_open_windows() -> None:
    scopes = written(5, 3)
    urgent = scopes[:-1] & scopes[1:]
    assert urgent.any()
    assert (scopes[:-1] & ~urgent).any()
