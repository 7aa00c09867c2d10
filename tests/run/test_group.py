"""Threads of a rank on a padded run: what computes yields to whatever communicates."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist

from harness.config import load
from harness.run.group import Group
from harness.run.priority import COMPUTE_NICE, _policy
from harness.run.spec import RunSpec
from odin.comm.link import UNSHAPED
from tests.odin.processes import Ranks, run_processes


def refuse(*_: object) -> None:
    raise PermissionError("not permitted")


def priorities(here: Ranks) -> dict:
    """(policy, real-time priority, nice value) of this rank's threads while a transport is open, by reduction, padding
    and whether a real-time policy is permitted; and what the record says."""
    found: dict = {}
    for reduce, padded, permitted in (
        ("native", "false", True),
        ("ordered", "false", True),
        ("ordered", "true", False),
        ("ordered", "true", True),
    ):
        if not permitted:
            permit, os.sched_setscheduler = os.sched_setscheduler, refuse
        dist.destroy_process_group()  # the test's own, then that of the group before
        config = load([f"ranks={here.ranks}", f"reduce={reduce}", f"padded={padded}", "timeout_s=60"])
        folder = here.folder / f"{reduce}-{padded}-{permitted}"
        folder.mkdir(exist_ok=True)
        group = Group(RunSpec(config=config, cells=(("barrier", 0),), folder=folder), here.rank)
        transport = group.transport("cell-0", UNSHAPED, steps=1)
        names = {thread.native_id: thread.name for thread in threading.enumerate()}
        tasks = [int(task.name) for task in Path("/proc/self/task").iterdir()]
        found[f"{reduce} {padded} {permitted}"] = (
            group.priority,
            {
                f"{names.get(task, 'gloo')} {task}": (
                    os.sched_getscheduler(task),
                    os.sched_getparam(task).sched_priority,
                    os.getpriority(os.PRIO_PROCESS, task),
                )
                for task in tasks
            },
        )
        transport.close()
        if not permitted:
            os.sched_setscheduler = permit
    return found


def may_be_realtime() -> bool:
    """In a child, because a policy cannot be given back."""
    call = "import os; os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))"
    return subprocess.run([sys.executable, "-c", call], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="priorities of threads are Linux's")
def test_what_computes_yields_to_communication_on_a_padded_run(tmp_path: Path) -> None:
    own, other = os.getpriority(os.PRIO_PROCESS, 0), os.SCHED_OTHER
    permitted = may_be_realtime()
    for found in run_processes(2, priorities, tmp_path):
        said, threads = found["native false True"]
        assert said == "ordinary"
        assert not [name for name in threads if name.startswith("ordered-sums")]
        said, threads = found["ordered false True"]
        assert said == "ordinary"
        assert set(threads.values()) == {(other, 0, own)}
        said, threads = found["ordered true False"]
        assert said == f"nice {own + COMPUTE_NICE}, communication {own}"
        assert len([name for name in threads if name.startswith("ordered-sums")]) == 1
        assert len([name for name in threads if name.startswith("gloo")]) > 1
        for name, state in threads.items():
            assert state == (other, 0, own + (COMPUTE_NICE if name.startswith("MainThread") else 0)), name
        said, threads = found["ordered true True"]
        if permitted:
            assert said == "real-time 1, communication 2"
            for name, (policy, priority, _) in threads.items():
                assert (policy, priority) == (os.SCHED_RR, 1 if name.startswith("MainThread") else 2), name


@pytest.mark.skipif(not hasattr(os, "sched_setscheduler"), reason="policies of threads are Linux's")
def test_a_policy_that_was_asked_for_is_kept_or_declined() -> None:
    assert _policy(realtime=False) == (os.SCHED_OTHER, 0)
    call = "import os; from harness.run.priority import _policy; print(*_policy(realtime=True))"
    if not may_be_realtime():
        pytest.skip("a real-time policy is not permitted here")
    done = subprocess.run(
        [sys.executable, "-c", f"import os; os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(7)); {call}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(int(os.SCHED_RR)), "7"]


def test_ranks_wait_for_rank_0_longer_than_a_collective_may_take() -> None:
    """It renders test views for minutes where there are many; the others must not give up first."""
    store = dist.HashStore()
    store.set_timeout(timedelta(seconds=0.1))
    groups = []
    for rank in range(2):
        group = Group.__new__(Group)
        group.rank, group.ranks, group._store = rank, 2, store
        groups.append(group)
    waiting = threading.Thread(target=groups[1].judged, args=("record 1",))
    waiting.start()
    waiting.join(0.5)
    assert waiting.is_alive()
    groups[0].judged("record 1")
    waiting.join(5)
    assert not waiting.is_alive()
