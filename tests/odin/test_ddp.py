"""DDP on the toy recipe: ranks are threads, each in DDP of a process group of one; sums go through the transport."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.arms import ARMS
from odin.comm.transport import SingleRank
from odin.ddp import DdpRuntime
from odin.ddp.hook import Launches
from odin.ddp.inside import Inside
from odin.errors import InputError, RunError
from odin.keeper import Keeper
from odin.phases import Phase
from odin.plan import Plan
from odin.publication import WindowState
from odin.recipe import Event
from odin.runtime import Runtime
from odin.segments import two_buckets
from odin.slot import GradientSlot
from tests.odin.test_exactness import VIEWS, event, make_plan
from tests.odin.threads import Exchange, run_ranks
from tests.odin.toy import LAYOUT, ToyRecipe

ROWS = 60
COLOURS, GEOMETRY = 4, 3  # columns of the toy


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    file: Path = tmp_path_factory.mktemp("ddp") / "store"
    dist.init_process_group("gloo", store=dist.FileStore(str(file), 1), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def train(arm: str, plan: Plan, events: list[Event]) -> tuple[list[Runtime], Exchange]:
    kind = DdpRuntime if arm == "ddp" else Runtime

    def main(transport: object) -> Runtime:
        runtime = kind(ToyRecipe(ROWS, VIEWS, events), plan, ARMS[arm], transport, Keeper())
        runtime.run()
        return runtime

    return run_ranks(plan.ranks, main)


@settings(max_examples=20, deadline=None)
@given(
    events=st.lists(event, min_size=2, max_size=10),
    ranks=st.integers(1, 3),
    unit=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_ddp_has_the_bits_of_barrier(group, events, ranks, unit, seed) -> None:
    """In this transport sums are in rank order, so more than two ranks are equal as well."""
    plan = make_plan(len(events), ranks, unit, events, seed)
    waited, sent_waited = train("barrier", plan, events)
    wrapped, sent = train("ddp", plan, events)
    assert {r.recipe.table.digest() for r in (*waited, *wrapped)} == {waited[0].recipe.table.digest()}
    assert sent.log == sent_waited.log, "collectives differ in number, size or order"
    for a, b in zip(waited, wrapped, strict=True):
        assert a.publication.payload_bytes == b.publication.payload_bytes
        assert a.publication.windows == b.publication.windows
        assert [r.loss for r in a.records] == [r.loss for r in b.records]
        assert torch.equal(a.recipe.visits, b.recipe.visits)


def test_windows_are_waited_for(group) -> None:
    events = [Event.NONE, Event.DENSIFY, Event.NONE, Event.NONE]
    (runtime, _), _ = train("ddp", make_plan(4, 2, 2, events, 0), events)
    windows = runtime.publication.windows
    assert {w.state for w in windows} == {WindowState.REJECTED}
    assert [w.reason for w in windows] == ["everything is waited for", "structural", "everything is waited for"]
    assert sorted(runtime.publication.payload_bytes) == [0, 2, 3]


class Spy(Keeper):
    """Remembers what happened in which order."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def _close(self, phase: Phase, *rest) -> None:
        self.seen.append(phase.value)
        super()._close(phase, *rest)

    def join(self) -> float:
        self.seen.append("join")
        return super().join()


def test_colours_leave_before_the_projection_backward(group) -> None:
    """Three views: only the last one's gradients are sent, each as soon as autograd has added it to its leaf."""
    events = [Event.NONE, Event.DENSIFY, Event.NONE]
    keeper = Spy()
    plan = make_plan(3, 1, 3, events, 0)
    DdpRuntime(ToyRecipe(ROWS, VIEWS, events), plan, ARMS["ddp"], SingleRank(), keeper).run()
    one = ["ddp", "project", "blend", "ddp", "colour_backward", "ddp", "projection_backward", "ddp"]
    last = ["ddp", "project", "blend", "ddp", "colour_backward", "ddp", "join"]
    last += ["ddp", "projection_backward", "ddp", "join", "ddp"]
    step = ["clear", "cull", *one, *one, *last, "ddp", "update"]
    dropped = ["clear", "cull", *one, *one, *one]
    assert keeper.seen == [*step, *dropped, "join", "replicas", "ddp_wrap", *step]


def test_copies_are_counted(group) -> None:
    events = [Event.NONE]
    keeper = Keeper()
    DdpRuntime(ToyRecipe(ROWS, VIEWS, events), make_plan(1, 1, 1, events, 0), ARMS["ddp"], SingleRank(), keeper).run()
    colours, geometry = COLOURS * ROWS, GEOMETRY * ROWS
    copied = [e.work.entries for e in keeper.entries if e.name == "ddp"]
    assert copied == [0, colours, colours, geometry, geometry, 0, colours + geometry]


def test_leaves_alias_the_table_and_old_buckets_are_freed(group) -> None:
    events = [Event.NONE, Event.DENSIFY, Event.NONE]
    recipe = ToyRecipe(ROWS, VIEWS, events)
    runtime = DdpRuntime(recipe, make_plan(3, 1, 2, events, 0), ARMS["ddp"], SingleRank(), Keeper())
    first = runtime.publication.buckets
    assert first.wraps(recipe.table)
    leaves = list(first._ddp.parameters())
    assert {leaf.data_ptr() for leaf in leaves} == {recipe.table.parameters.data_ptr() + 4 * c for c in (0, 3)}
    watched = [weakref.ref(leaf) for leaf in leaves]
    del first, leaves
    runtime.run()
    assert runtime.publication.buckets.wraps(recipe.table)
    assert [ref() for ref in watched] == [None, None]


@pytest.mark.parametrize("sizes", [[420], [180, 240], [], [240], [240, 180, 240]])
def test_other_buckets_are_refused(sizes: list[int]) -> None:
    slot = GradientSlot(ROWS, LAYOUT)
    rows = np.arange(ROWS, dtype=np.int32)
    slot.partition(two_buckets(rows))
    launches = Launches(SingleRank(), Keeper(), Inside(Keeper()), slot.segments)
    for size in sizes:
        launches.bucket(torch.zeros(size))
    with pytest.raises(RunError, match=r"expected \[240, 180\]"):
        launches.take()


def test_without_a_process_group_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "is_initialized", lambda: False)
    events = [Event.NONE] * 2
    with pytest.raises(InputError, match="ranks=2"):
        DdpRuntime(ToyRecipe(ROWS, VIEWS, events), make_plan(2, 1, 2, events, 0), ARMS["ddp"], SingleRank(), Keeper())
