"""Owners on the device path, on stand-in lanes of the CPU: the bits of the host, and the discipline of the lanes."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch.distributed as dist

from harness.config import load
from harness.run.checkpoints import checkpointed_plan
from harness.run.execute import Executed, execute
from harness.run.shards import shard_saver, start_or_resume_shard
from harness.run.together import run_threads
from harness.run.workload import Workload, load_workload
from odin.arms import arm
from odin.comm.link import UNSHAPED
from odin.comm.transport import Arrival, Handle
from odin.device.streams import Lane
from odin.errors import InputError
from odin.keeper import Keeper
from odin.losses import StepRecord
from odin.mixed.flight import Flight
from odin.mixed.owners import Owners
from odin.mixed.split import UrgentRuntime
from odin.publication import WindowState
from odin.recipe import Event
from odin.slot import Slot
from pipelines.backend import Backend
from pipelines.device_place import DevicePlace
from pipelines.render.cpu import CpuRenderer
from tests.odin.discipline import (
    Recorder,
    launched_before_written,
    strangers_on_communication,
    touched_before_arrival,
)
from tests.odin.standins import Rank, run_device_ranks

SCENE = ["scene=rooms?views=16&width=64&height=48&points=900", "pipeline=grendel", "test_every=0", "views_per_unit=2"]
WORDS = [*SCENE, "initial_subsample=0.4", "steps=12", "redistribute_above=1"]
WORDS += ["densify_at=[4,8]", "reset_at=[6]", "sh_at=[3]"]
SMALL = [*SCENE, "initial_subsample=0.1", "steps=4", "densify=false", "reset_at=[]", "sh_at=[]"]
ARMS = ["barrier", "barrier-planned", "quality", "predicted:audit=0:dispatch=static"]


@pytest.fixture(scope="module")
def workload() -> Workload:
    return load_workload(load(WORDS))


def on_host(workload: Workload, name: str, ranks: int) -> list[Executed]:
    return run_threads(ranks, UNSHAPED, lambda t: execute(workload, arm(name), t, Keeper()))


def on_device(
    workload: Workload, name: str, ranks: int, *, recorder: type | None = None
) -> list[tuple[Rank, Executed]]:
    """recorder: notes what torch does on the lanes"""

    def main(rank: Rank) -> tuple[Rank, Executed]:
        backend = Backend(renderer=CpuRenderer(), place=DevicePlace(rank.streams))
        with recorder(rank.streams) if recorder else nullcontext():
            return rank, execute(replace(workload, backend=backend), arm(name), rank.transport, rank.keeper)

    return run_device_ranks(ranks, main, store=dist.HashStore())


def state(run: Executed) -> tuple[str, bytes, int]:
    """The whole model: parameters, moments, statistics and degree."""
    recipe = run.recipe
    return recipe.table.digest(), recipe.statistics.sums().tobytes(), recipe.degree


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("ranks", [2, 3])
def test_owners_on_a_device_have_the_bits_of_the_host(name: str, ranks: int) -> None:
    workload = load_workload(load([*WORDS, f"ranks={ranks}"]))
    device, host = on_device(workload, name, ranks), on_host(workload, name, ranks)
    assert len({state(run) for run in [*(run for _, run in device), *host]}) == 1
    events = host[0].recipe.schedule.events
    assert {Event.DENSIFY, Event.RESET, Event.SH_UP} <= set(events)
    assert any(one.moved for one in host[0].redistributions), "no row has changed its owner"
    for (rank, ours), theirs in zip(device, host, strict=True):
        assert ours.redistributions == theirs.redistributions
        assert ours.payload == theirs.payload and ours.windows == theirs.windows
        assert [r.loss for r in ours.records] == [r.loss for r in theirs.records]
        assert strangers_on_communication(rank.streams.log) == []
        sent = [op for op in rank.streams.log if op.name in ("all_to_all", "all_gather")]
        assert len(sent) >= 3 * workload.plan(arm(name)).steps
        assert {op.lane for op in sent} == {Lane.COMMUNICATION}
        waited = [(e.step, e.kind, e.name) for e in ours.entries if e.name != "cull"]
        assert sorted(waited) == sorted((e.step, e.kind, e.name) for e in theirs.entries if e.name != "cull")
        assert all(a.start < a.end == b.start for a, b in pairwise(ours.records))


def test_quality_overlaps_and_ends_where_waiting_does(workload: Workload) -> None:
    waited, quality = on_device(workload, "barrier-planned", 2), on_device(workload, "quality", 2)
    assert len({state(run)[:2] for _, run in (*waited, *quality)}) == 1
    states = {w.state for w in quality[0][1].windows}
    assert states - {WindowState.REJECTED}
    camera = workload.capture.cameras[int(workload.capture.train[0])]
    image = on_host(workload, "quality", 2)[0].recipe.image(camera)
    assert np.array_equal(quality[0][1].recipe.image(camera), image)


@pytest.mark.parametrize("name", ARMS[1:])
def test_every_element_is_written_before_it_leaves_and_read_after_it_is_back(name: str) -> None:
    small = load_workload(load(SMALL))
    for rank, _ in on_device(small, name, 2, recorder=Recorder):
        assert any(op.writes for op in rank.streams.log if op.lane is Lane.COMPUTE)
        for check in (strangers_on_communication, launched_before_written, touched_before_arrival):
            assert check(rank.streams.log) == []


class Stopped(Exception):
    """Training ends here."""


class Unawaited:
    """A handle that nobody waits for."""

    def __init__(self, handle: Handle) -> None:
        self.nbytes, self._handle = handle.nbytes, handle

    def wait(self) -> Arrival:
        return Arrival(joined=0.0, last_join=0.0, start=0.0, finish=0.0, real=0.0)


class UpdatesTooEarly(UrgentRuntime):
    """The mutant: owners read gradients before they have arrived."""

    def _gather(self, flight: Flight, slot: Slot | None) -> Slot:
        assert flight.published is not None and flight.gradient is not None
        flight.gradient.zero_()
        flight.published = Unawaited(flight.published)
        return super()._gather(flight, slot)


def test_gradients_that_are_not_waited_for_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    small = load_workload(load(SMALL))
    right = {state(run) for _, run in on_device(small, "quality", 2)}
    monkeypatch.setattr("harness.run.execute.mixed_runtime", lambda _: UpdatesTooEarly)
    wrong = on_device(small, "quality", 2, recorder=Recorder)
    assert {state(run) for _, run in wrong} != right
    assert all(touched_before_arrival(rank.streams.log) for rank, _ in wrong)


@pytest.mark.parametrize("name", ["quality", ARMS[3]])
def test_owners_on_a_device_resume_to_the_same_bits(name: str, workload: Workload, tmp_path: Path) -> None:
    chosen = arm(name)
    plan = checkpointed_plan(workload, chosen, 5)

    def main(rank: Rank, folder: Path, stop: int) -> tuple[tuple[str, bytes, int], list[float]]:
        backend = Backend(renderer=CpuRenderer(), place=DevicePlace(rank.streams))
        there, keeper = replace(workload, backend=backend), rank.keeper
        runtime, first = start_or_resume_shard(there, plan, chosen, rank.transport, keeper, folder)
        save = shard_saver(there, runtime, plan, 5, folder)

        def on_step(record: StepRecord) -> None:
            save(record)
            if (record.step + 1) % 5 == 0:
                keeper.forget()
            if record.step + 1 == stop:
                raise Stopped

        runtime.run(first, on_step)
        whole = runtime.recipe.whole(Owners(rank.transport, keeper, there.backend.place.device))
        losses = [record.loss for record in runtime.records]
        return (whole.table.digest(), whole.statistics.sums().tobytes(), whole.degree), losses[-2:]

    def train(folder: str, stop: int = 0) -> list:
        return run_device_ranks(2, lambda rank: main(rank, tmp_path / folder, stop), store=dist.HashStore())

    whole = train("whole")
    with pytest.raises(Stopped):
        train("parts", stop=7)
    assert train("parts") == whole


def test_views_are_not_cut_on_a_device(workload: Workload) -> None:
    bands = load_workload(load([*WORDS, "balance=state"]))
    with pytest.raises(InputError, match="balance=views with device=cuda"):
        on_device(bands, "barrier", 2)
