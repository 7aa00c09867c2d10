"""A group whose ranks are said to lie on several nodes: both ways to meet, one clock, and no emulation."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from harness.config import load
from harness.run.execute import Executed
from harness.run.group import Group
from harness.run.spec import RunSpec
from harness.run.spread import join_store, on_one_clock, serve_store
from odin.comm.hosts import HostClock
from odin.comm.link import UNSHAPED
from odin.comm.spread import SpreadTransport
from odin.errors import InputError, RunError
from odin.keeper import Entry
from odin.losses import StepRecord
from tests.odin.processes import Ranks, run_processes


def spread_groups(here: Ranks) -> dict:
    """A sum in a group that met at a store, and in one that met in a file."""
    served = serve_store() if here.rank == 0 else None
    if served is not None:
        (here.folder / "port").write_text(str(served.port))
    dist.barrier()
    port, found = (here.folder / "port").read_text(), {}
    for way in ("", port):
        dist.destroy_process_group()  # the test's own, then that of the group before
        config = load([f"ranks={here.ranks}", "link=none", "padded=false", "timeout_s=60"])
        folder = here.folder / f"met-{way}"
        folder.mkdir(exist_ok=True)
        spec = RunSpec(config=config, cells=(("barrier", 0),), folder=folder, nodes=2, meeting=f"127.0.0.1:{way}")
        group = Group(spec, here.rank)
        transport = group.transport("cell-0", UNSHAPED, steps=1)
        assert isinstance(transport, SpreadTransport)
        keeper = group.seat.keeper(transport, None)
        values = torch.full((3,), here.rank + 1.0)
        keeper.wait(transport.all_reduce(values, keeper.join()), "all")
        transport.settle()
        joins = [e.last_join for e in keeper.completed(keeper.entries)]
        transport.close()
        found[bool(way)] = (values.tolist(), group.clock_error(), joins == joins)
    return found


def test_ranks_meet_at_a_store_or_in_a_file(tmp_path: Path) -> None:
    for found in run_processes(2, spread_groups, tmp_path):
        for values, error, known in found.values():
            assert values == [3.0] * 3 and known
            assert 0 < error < 0.1
        assert set(found) == {False, True}


@pytest.mark.parametrize("word", ["padded=true", "link=exposed-295"])
def test_a_group_refuses_emulation(word: str, tmp_path: Path) -> None:
    words = {"padded": "padded=false", "link": "link=none"} | {word.partition("=")[0]: word}
    spec = RunSpec(config=load(["ranks=2", *words.values()]), cells=(("barrier", 0),), folder=tmp_path, nodes=2)
    with pytest.raises(InputError, match="memory of one host"):
        Group(spec, 0)


def test_a_store_that_is_not_there_is_one_paragraph(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="A firewall between nodes"):
        join_store("127.0.0.1:1", 2, timedelta(seconds=1), tmp_path / "file")


def test_a_timeline_moves_to_the_common_clock(tmp_path: Path) -> None:
    clock = HostClock(lambda: (10.0, -3.0, 1e-4))
    clock.anchor()
    entry = Entry(step=0, kind="wait", name="all", category="wait", start=10.0, end=11.0, last_join=10.5)
    record = StepRecord(step=0, start=9.0, end=12.0, structural=False, loss=0.1)
    seen = Executed(
        plan=None, recipe=None, entries=[entry], records=[record], windows=[], audits=[], delays=[], payload=[],
        late_steps=set(), late_causes={}, points=[], origin=9.0, initial_rows=1,
    )  # fmt: skip
    moved = on_one_clock(seen, clock)
    assert (moved.entries[0].start, moved.entries[0].end, moved.entries[0].last_join) == (7.0, 8.0, 7.5)
    assert (moved.records[0].start, moved.records[0].end, moved.origin) == (6.0, 9.0, 6.0)
