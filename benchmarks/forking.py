"""Supervisors and ranks forked from this process instead of started anew: imports and kernels are paid for once.

For runs of the harness whose numbers are not looked at. The process that forks must not have run autograd, which does
not survive a fork.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO

import torch

from harness.run.rank import show_stacks, tie
from harness.run.spec import RunSpec

_FILES = 4096  # open files of the parent that a child lets go of: a lock is held as long as anybody has it open


def warm() -> None:
    """Import and compile what supervisors and ranks need; they are forked afterwards."""
    from harness.config import load
    from harness.run import virtual, worker
    from harness.run.workload import compile_kernels, load_workload
    from harness.study import run
    from odin.arms import arm

    assert all((virtual, worker, run))
    tiny = load(["scene=rooms?views=16&width=48&height=36&points=300", "steps=12", "link=none"])
    load_workload(tiny).plan(arm("quality"))
    backward = torch.autograd.backward
    # Forked ranks load the kernels of colour's gradient themselves: autograd that has run here would not run there.
    torch.autograd.backward = lambda *_, **__: None  # type: ignore[assignment]
    try:
        compile_kernels(load([]))
    finally:
        torch.autograd.backward = backward


class Forked:
    """A forked process with as much of `subprocess.Popen` as a supervisor uses. It ends when its parent does.

    action: its exit code; out: what its stdout goes to, None for the log
    """

    def __init__(self, action: Callable[[], int], log: Path, out: int | None = None) -> None:
        self.stdout: IO[bytes] | None = None
        self.returncode: int | None = None
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            code = 70
            try:
                _become(log, out)
                tie(parent)
                code = action()
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)

    def poll(self) -> int | None:
        """Exit code, minus the signal that ended it, or None."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self) -> int:
        """Exit code, when there is one."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


def start_rank(spec: RunSpec, rank: int) -> Forked:
    """In place of `harness.run.launch._start`."""
    from harness.run import virtual, worker

    engine = virtual if spec.config.engine.virtual else worker

    def run() -> int:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        show_stacks()
        return engine.main([str(spec.path), str(rank)])

    if rank > 0:
        return Forked(run, spec.log(rank))
    read, write = os.pipe()
    made = Forked(run, spec.log(rank), write)
    os.close(write)
    made.stdout = os.fdopen(read, "rb")
    return made


def _become(log: Path, out: int | None) -> None:
    """Leave what was the parent's: its session, streams, files and handlers."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(file if out is None else out, 1)
    os.dup2(file, 2)
    os.closerange(3, _FILES)
    # Without closefd a fork of this one, which replaces these objects, would close its own streams with them.
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
