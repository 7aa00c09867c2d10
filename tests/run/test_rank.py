"""A rank process ends with its supervisor, and shows its stacks when asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

# A supervisor that starts a rank whose engine is a module that sleeps, and says its process id.
SUPERVISOR = """
import os, subprocess, sys, time
rank = subprocess.Popen([sys.executable, "-c", {rank!r}], env=os.environ | {{"ODIN_SUPERVISOR": str(os.getpid())}},
                        start_new_session=True)
print(rank.pid, flush=True)
time.sleep(60)
"""
RANK = """
import sys, time, types
worker = types.ModuleType("harness.run.worker")
worker.main = lambda arguments: time.sleep(60)
sys.modules["harness.run.worker"] = worker
from harness.run.rank import main
main(["harness.run.worker", "spec", "0"])
"""


def _runs(process: psutil.Process) -> bool:
    """Whether it is more than an entry that nobody has read yet: whoever inherits an orphan may not look after it."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_rank_does_not_outlive_its_supervisor() -> None:
    supervisor = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR.format(rank=RANK)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    rank = psutil.Process(int(supervisor.stdout.readline()))
    supervisor.kill()
    supervisor.communicate()
    deadline = time.monotonic() + 30
    while _runs(rank) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(rank)


def test_a_rank_whose_supervisor_is_gone_already_does_not_start() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    environment = os.environ | {"ODIN_SUPERVISOR": str(ended.pid)}
    done = subprocess.run([sys.executable, "-c", RANK], env=environment, timeout=60, check=False)
    assert done.returncode == 113


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="what a process catches is told by /proc")
def test_a_rank_shows_its_stacks() -> None:
    alone = {name: value for name, value in os.environ.items() if name != "ODIN_SUPERVISOR"}
    with subprocess.Popen([sys.executable, "-c", RANK], stderr=subprocess.PIPE, text=True, env=alone) as rank:
        process, deadline = psutil.Process(rank.pid), time.monotonic() + 30
        while not _catches_usr1(process.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        rank.send_signal(signal.SIGUSR1)
        line = rank.stderr.readline()
        rank.kill()
    assert "most recent call first" in line


def _catches_usr1(pid: int) -> bool:
    caught = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGUSR1 - 1) & 1)


NOISY = """
import os, sys, types
from harness.run.telling import tell
def noise(arguments):
    print("half a line", end="", flush=True)
    os.write(1, b"of a library")
    tell(stage="done", index=0)
worker = types.ModuleType("harness.run.worker")
worker.main = noise
sys.modules["harness.run.worker"] = worker
from harness.run.rank import main
main(["harness.run.worker", "spec", "0"])
"""


def test_what_libraries_print_does_not_touch_messages() -> None:
    done = subprocess.run([sys.executable, "-c", NOISY], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == '{"stage": "done", "index": 0}\n'
    assert done.stderr == "half a lineof a library"
