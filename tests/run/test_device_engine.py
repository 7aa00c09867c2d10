"""The whole engine on the device path, on stand-in lanes of the CPU: bits, discipline of the lanes, no host wait.

The CPU renderer stands for the device's kernels. Row kernels, slots, scopes and statistics are the device's torch
operations; sums are held back until somebody waits for them (`odin.device.standin`).
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
import torch.distributed as dist
from torch.overrides import TorchFunctionMode

from harness.config import load
from harness.run.workload import Workload, load_workload
from odin.arms import arm
from odin.device.fetch import Fetched
from odin.device.streams import Lane
from odin.keeper import Keeper
from odin.publication import Publication, UrgentPublication, WindowState
from odin.publication.layout import REST, Classes
from odin.recipe import Event
from odin.runtime import Runtime
from pipelines.backend import Backend
from pipelines.device_place import DevicePlace
from pipelines.render.cpu import CpuRenderer
from tests.odin.discipline import (
    Namer,
    Recorder,
    host_waits,
    launched_before_written,
    strangers_on_communication,
    touched_before_arrival,
)
from tests.odin.standins import Rank, run_device_ranks
from tests.odin.sync import TO_HOST, HostSyncError, NoHostSync
from tests.odin.threads import run_ranks

EVENTS = ["densify_at=[6]", "reset_at=[8]", "sh_at=[4]"]
PREDICTED = "predicted:audit=0:dispatch=static"
# A view's project, bin, colour, blend and loss, two events each: what the device still has to do when the host takes a
# value inside a step.
FORWARD = 10


def loaded(share: float, steps: int, *words: str) -> Workload:
    """A small scene, of whose 900 points a share is used."""
    scene = "scene=rooms?views=16&width=64&height=48&points=900"
    return load_workload(load([scene, f"initial_subsample={share}", f"steps={steps}", "test_every=0", *words]))


@pytest.fixture(scope="module")
def workload() -> Workload:
    return loaded(0.4, 12, *EVENTS)


class NoHostCopy(TorchFunctionMode):
    """Calls that bring a tensor to the host raise, except in the renderer, which stands for kernels."""

    SURFELS = ("pipelines.render.surfels.renderer", "pipelines.render.surfels.regularise")  # the host's, not its twins
    KERNELS = ("pipelines.render.cpu", *SURFELS, "pipelines.render.ssim", "odin.device.fetch")

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name, caller = getattr(func, "__name__", ""), sys._getframe(1).f_globals.get("__name__", "")
        if name in TO_HOST and not caller.startswith(self.KERNELS):
            raise HostSyncError(f"{name} in {caller}")
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Take:
    """A value that the host took inside a step; `put`: events put on COMPUTE since it was asked for."""

    blocked: bool
    put: int


class WatchedRuntime(Runtime):
    """Between structural events nothing may make the host wait, and every value that it takes is noted."""

    def __init__(self, *args, rank: Rank, recorder: type, **more) -> None:
        super().__init__(*args, **more)
        self.streams, self._recorder = rank.streams, recorder
        self.takes: list[Take] = []
        self.inside: list = []  # what was put on the lanes inside steps
        self.publication.close = partial(self._watched, self.publication.close)

    def _unit(self, step):
        # Scopes of the first step after a structural event are asked for on flushed state, just before.
        first = step == 0 or self.plan.blocking[step - 1]
        return super()._unit(step) if first else self._watched(super()._unit, step)

    def _watched(self, call, step):
        start = len(self.streams.log)
        with self._recorder(self.streams), NoHostSync(), NoHostCopy(), self._noting():
            result = call(step)
        self.inside += self.streams.log[start:]
        return result

    @contextmanager
    def _noting(self) -> Iterator[None]:
        self.streams.takes = self.takes
        yield
        del self.streams.takes


@pytest.fixture
def noted(monkeypatch) -> None:
    """Takes inside watched steps are entered with their runtime."""
    take = Fetched.take

    def noting(fetched: Fetched):
        streams = fetched._streams
        before, value = len(streams.log), take(fetched)
        if hasattr(streams, "takes"):
            asked = next(k for k, op in enumerate(streams.log) if op.event == fetched._event.number)
            put = sum(op.name == "record" and op.lane is Lane.COMPUTE for op in streams.log[asked + 1 :])
            streams.takes.append(Take(bool(host_waits(streams.log[before:])), put))
        return value

    monkeypatch.setattr(Fetched, "take", noting)


def on_host(workload: Workload, name: str) -> list[Runtime]:
    def main(transport: object) -> Runtime:
        runtime = Runtime(workload.recipe(), workload.plan(arm(name)), arm(name), transport, Keeper())
        runtime.run()
        return runtime

    return run_ranks(2, main)[0]


def on_device(
    workload: Workload, name: str, *, policy: type[Publication] | None = None, recorder: type = Namer
) -> list[WatchedRuntime]:
    plan = workload.plan(arm(name))

    def main(rank: Rank) -> WatchedRuntime:
        backend = Backend(renderer=CpuRenderer(), place=DevicePlace(rank.streams))
        recipe = replace(workload, backend=backend).recipe()
        runtime = WatchedRuntime(
            recipe, plan, arm(name), rank.transport, rank.keeper, policy=policy, rank=rank, recorder=recorder
        )
        runtime.run()
        return runtime

    return run_device_ranks(2, main, store=dist.HashStore())


def digests(runtimes: list[Runtime]) -> set[str]:
    return {runtime.recipe.table.digest() for runtime in runtimes}


@pytest.mark.parametrize("optimizer", ["dense", "selective"])
def test_the_device_path_has_the_bits_of_the_host(optimizer: str, noted: None) -> None:
    workload = loaded(0.4, 12, *EVENTS, f"optimizer={optimizer}")
    waited, quality = on_device(workload, "barrier-planned"), on_device(workload, "quality")
    host = on_host(workload, "quality")
    assert len(digests([*waited, *quality, *host])) == 1
    assert [w.state for w in quality[0].publication.windows] == [w.state for w in host[0].publication.windows]
    assert WindowState.PARTIAL in {w.state for w in quality[0].publication.windows}
    for one in (*waited, *quality):
        assert strangers_on_communication(one.streams.log) == []
        assert host_waits(one.inside) == []
        assert sum(op.name == "all_reduce" for op in one.inside) >= 12
        assert one.takes and all(not take.blocked and take.put >= FORWARD for take in one.takes)
    losses = [[record.loss for record in run[0].records] for run in (quality, host)]
    assert losses[0] == losses[1]
    kinds = [[(e.step, e.kind, e.name) for e in run[0].keeper.entries if e.name != "cull"] for run in (quality, host)]
    assert sorted(kinds[0]) == sorted(kinds[1])
    for records in (run.records for run in quality):
        assert all(a.start < a.end == b.start for a, b in itertools.pairwise(records))


@pytest.mark.parametrize(
    ("pipeline", "words"),
    [
        ("2dgs", EVENTS),
        ("dashgs", ["densify_at=[4,8]", "reset_at=[]", "sh_at=[6]"]),
        ("taminggs", [*EVENTS, "f_rest_every=4", "score_views=3", "primitive_budget=4"]),
        ("taminggs", [*EVENTS, "optimizer=selective", "score_views=3"]),
    ],
)
def test_other_recipes_have_the_bits_of_the_host(pipeline: str, words: list[str], noted: None) -> None:
    workload = loaded(0.4, 12, f"pipeline={pipeline}", *words)
    waited, quality = on_device(workload, "barrier-planned"), on_device(workload, "quality")
    host = on_host(workload, "quality")
    assert len(digests([*waited, *quality, *host])) == 1
    losses = [[record.loss for record in run[0].records] for run in (quality, host)]
    assert losses[0] == losses[1]
    events = set(quality[0].recipe.schedule.events)
    assert any(Event.DENSIFY in e for e in events) and Event.SH_UP in events
    assert any((Event.RESOLUTION if pipeline == "dashgs" else Event.RESET) in e for e in events)
    assert WindowState.PARTIAL in {w.state for w in quality[0].publication.windows}
    for one in (*waited, *quality):
        assert strangers_on_communication(one.streams.log) == host_waits(one.inside) == []
        assert one.takes and all(not take.blocked and take.put >= FORWARD for take in one.takes)
    views = workload.capture.train[:2].tolist()
    for index in views:
        camera = workload.capture.cameras[index]
        assert np.array_equal(quality[0].recipe.image(camera), host[0].recipe.image(camera))


def test_predicted_reads_have_the_bits_of_the_host(workload: Workload, noted: None) -> None:
    device, host = on_device(workload, PREDICTED), on_host(workload, PREDICTED)
    assert len(digests([*device, *host])) == 1
    for one in device:
        assert strangers_on_communication(one.streams.log) == host_waits(one.inside) == []
        assert all(not take.blocked and take.put >= FORWARD for take in one.takes)


def test_predicted_reads_correct_held_columns_as_the_host_does(noted: None) -> None:
    words = ["pipeline=taminggs", "f_rest_every=4", "score_views=3", "primitive_budget=4"]
    workload = loaded(0.4, 12, *EVENTS, *words)
    device, host = on_device(workload, PREDICTED), on_host(workload, PREDICTED)
    assert device[0].recipe.table.held is not None
    assert len(digests([*device, *host])) == 1
    assert all(host_waits(one.inside) == [] for one in device)


@pytest.mark.parametrize("name", ["barrier-planned", "quality"])
def test_every_element_is_written_before_it_leaves_and_read_after_it_is_back(name: str, noted: None) -> None:
    workload = loaded(0.1, 5)
    for one in on_device(workload, name, recorder=Recorder):
        assert any(op.writes for op in one.inside)
        for check in (strangers_on_communication, launched_before_written, touched_before_arrival):
            assert check(one.streams.log) == []


class WithoutHazardCheck(UrgentPublication):
    """Nothing is taken for a conflict, so pending rows are read stale."""

    def classes(self, step: int, found: Classes) -> Classes:
        return Classes(last=found.last, need=np.full_like(found.need, REST))


class UpdatesOnTheWrongLane(UrgentPublication):
    """The row kernel runs on the communication stream."""

    def _update(self, pending, ids, lo, hi):
        with self.transport._streams.on(Lane.COMMUNICATION):
            super()._update(pending, ids, lo, hi)


class CutsAtOnce(UrgentPublication):
    """The host takes the scopes as soon as they were asked for."""

    def open(self, step: int) -> None:
        super().open(step)
        self.slot(step)


class Looks(UrgentPublication):
    """The host looks at a value of the table."""

    def close(self, step: int) -> None:
        self.recipe.table.values()
        super().close(step)


def test_mutants_are_caught(noted: None) -> None:
    workload = loaded(0.4, 6)
    right = digests(on_device(workload, "quality"))
    assert digests(on_device(workload, "quality", policy=WithoutHazardCheck)) != right
    (wrong, *_) = on_device(workload, "quality", policy=UpdatesOnTheWrongLane)
    assert strangers_on_communication(wrong.inside)
    (wrong, *_) = on_device(workload, "quality", policy=CutsAtOnce)
    assert any(take.put < FORWARD for take in wrong.takes)
    with pytest.raises(HostSyncError, match="cpu in odin"):
        on_device(workload, "quality", policy=Looks)
