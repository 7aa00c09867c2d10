"""Rank processes forked from a server that has imported and compiled once: they start in no time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from pathlib import Path
from typing import IO

from harness.run.rank import show_stacks
from harness.run.spec import RunSpec

PRELOADED = ["tests.odin.processes", "tests.faults.warm"]


class Forked:
    """As much of `subprocess.Popen` as a supervisor uses."""

    def __init__(self, spec: RunSpec, rank: int) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        mine, theirs = context.Pipe(duplex=False)
        virtual = spec.config.engine.virtual
        log, first = spec.log(rank), rank == 0
        self.process = context.Process(target=_rank, args=(virtual, spec.path, rank, log, theirs if first else None))
        self.process.start()
        theirs.close()
        self.pid = self.process.pid
        self.stdout: IO[bytes] | None = os.fdopen(os.dup(mine.fileno()), "rb") if first else None
        mine.close()

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self) -> int | None:
        self.process.join()
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)


def _rank(virtual: bool, spec: Path, rank: int, log: Path, out: object) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 2)
    os.dup2(file if out is None else out.fileno(), 1)
    if out is not None:
        out.close()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    show_stacks()
    from harness.run import virtual as threads
    from harness.run import worker

    sys.exit((threads if virtual else worker).main([str(spec), str(rank)]))
