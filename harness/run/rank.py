"""A rank process before anything heavy is imported: tied to its supervisor, and able to say where it is.

python -m harness.run.rank MODULE SPEC.json RANK
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import os
import signal
import sys
import threading
import time

from harness.run.telling import open_channel

SUPERVISOR = "ODIN_SUPERVISOR"  # its process id, in the environment of the ranks that it starts
LOST = 113  # exit code of a rank whose supervisor is gone; nobody reads it
_PR_SET_PDEATHSIG = 1


def show_stacks() -> None:
    """A crash in native code, and the signal by which the supervisor asks a rank that hangs, print the stacks of all
    threads to the rank's log."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)


def tie(supervisor: int) -> None:
    """End this process when its supervisor does, however that ends: a killed one cannot stop its ranks."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        threading.Thread(target=_watch, args=(supervisor,), name="supervisor", daemon=True).start()
    if os.getppid() != supervisor:  # gone before this process could be tied to it
        os._exit(LOST)


def _watch(supervisor: int) -> None:
    while os.getppid() == supervisor:
        time.sleep(1.0)
    os._exit(LOST)


def main(arguments: list[str]) -> int:
    """Run a rank by the module that `RunSpec.ranks_run` names, as `harness.run.worker`; its exit code."""
    module, *rest = arguments
    show_stacks()
    open_channel()
    supervisor = os.environ.pop(SUPERVISOR, "")
    if supervisor:
        tie(int(supervisor))
    return importlib.import_module(module).main(rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
