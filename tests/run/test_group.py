"""Threads of a rank on a padded run: what computes yields to whatever communicates."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
import torch.distributed as dist

from harness.config import load
from harness.run.group import COMPUTE_NICE, Group
from harness.run.spec import RunSpec
from odin.comm.link import UNSHAPED
from tests.odin.processes import Ranks, run_processes


def priorities(here: Ranks) -> dict:
    """Nice values of this rank's threads while a transport is open, by reduction and padding."""
    found = {}
    for reduce, padded in (("native", "false"), ("ordered", "false"), ("ordered", "true")):
        dist.destroy_process_group()  # the test's own, then that of the group before
        config = load([f"ranks={here.ranks}", f"reduce={reduce}", f"padded={padded}", "timeout_s=60"])
        folder = here.folder / f"{reduce}-{padded}"
        folder.mkdir(exist_ok=True)
        group = Group(RunSpec(config=config, cells=(("barrier", 0),), folder=folder), here.rank)
        transport = group.transport("cell-0", UNSHAPED, steps=1)
        names = {thread.native_id: thread.name for thread in threading.enumerate()}
        tasks = [int(task.name) for task in Path("/proc/self/task").iterdir()]
        nice = {f"{names.get(task, 'gloo')} {task}": os.getpriority(os.PRIO_PROCESS, task) for task in tasks}
        found[f"{reduce} {padded}"] = nice
        transport.close()
    return found


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="priorities of threads are Linux's")
@pytest.mark.xdist_group("process")
def test_what_computes_yields_to_communication_on_a_padded_run(tmp_path: Path) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    for found in run_processes(2, priorities, tmp_path):
        assert not [name for name in found["native false"] if name.startswith("ordered-sums")]
        for name, nice in found["ordered false"].items():
            assert nice == own, name
        padded = found["ordered true"]
        assert len([name for name in padded if name.startswith("ordered-sums")]) == 1
        assert len([name for name in padded if name.startswith("gloo")]) > 1
        for name, nice in padded.items():
            assert nice == own + (COMPUTE_NICE if name.startswith("MainThread") else 0), name
