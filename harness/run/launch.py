"""Starting rank processes, watching them, and ending all of them when one is lost.

Every rank leads its own process group; whatever happens, no process of the run outlives `launch`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol

from platformdirs import user_cache_dir

from harness.run import failure
from harness.run.failure import Whereabouts
from harness.run.ports import refuse_without_ports
from harness.run.rank import SUPERVISOR
from harness.run.reason import Killed, oom_kills, reason
from harness.run.spec import RunSpec
from harness.store.identity import code_version
from odin.comm.stamps import remove_stamps
from odin.errors import RunError

OnMessage = Callable[[dict], None]

_POLL_SECONDS = 0.1
_GRACE_SECONDS = 3.0
_NOTICE_SECONDS, _LAST_SECONDS = 3.0, 0.5
_STEP_SECONDS = 6.0  # with the grace, a rank that hangs is gone within its patience + 10 s
# One thread per rank: ranks share the cores, and more threads than cores slow all of them down.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


class Starter(Protocol):
    """How the rank processes of a run come to be. nodes: hosts that they lie on."""

    nodes: int

    def meeting(self, spec: RunSpec) -> AbstractContextManager[RunSpec]:
        """The spec with the place where its ranks meet, which is there until the block ends."""
        ...

    def start(self, spec: RunSpec) -> list[subprocess.Popen]:
        """Processes that end when their ranks do, each at the head of its own process group; the first one has rank 0's
        messages on stdout."""
        ...

    def killed(self, spec: RunSpec, codes: Sequence[int | None]) -> Killed | None:
        """Which rank was ended from outside, if one was. codes: exit codes of the processes so far."""
        ...

    def stuck(self, codes: Sequence[int | None]) -> list[int]:
        """Ranks that have not ended where the others have given them up, as far as processes tell."""
        ...


class Here:
    """All ranks on this machine, a process each."""

    nodes = 1

    def meeting(self, spec: RunSpec) -> AbstractContextManager[RunSpec]:
        """The file in the run's folder."""
        refuse_without_ports(spec.config.faults)
        return nullcontext(spec)

    def start(self, spec: RunSpec) -> list[subprocess.Popen]:
        """One process per rank."""
        started: list[subprocess.Popen] = []
        try:
            for rank in range(1 if spec.config.engine.virtual else spec.config.engine.ranks):
                started.append(_start(spec, rank))
        except OSError as error:
            with _ranks(started):  # which ends them
                raise RunError(
                    f"The process of rank {len(started)} could not be started: {error.strerror or error}. Nothing was "
                    "trained; close other programs, or use fewer ranks."
                ) from error
        return started

    def killed(self, spec: RunSpec, codes: Sequence[int | None]) -> Killed | None:
        """A process that a signal ended."""
        gone = [(rank, -code) for rank, code in enumerate(codes) if code is not None and code < 0]
        if not gone:
            return None
        # gloo may abort a rank whose peer is gone: whoever was ended otherwise was the first.
        rank, number = min(gone, key=lambda one: (one[1] == signal.SIGABRT, one[0]))
        who = "The process of all ranks" if spec.config.engine.virtual else f"Rank {rank}"
        return Killed(who, f"it was ended by {signal.Signals(number).name}", rank)

    def stuck(self, codes: Sequence[int | None]) -> list[int]:
        """Those whose processes are still there."""
        return [rank for rank, code in enumerate(codes) if code is None]


def launch(spec: RunSpec, on_message: OnMessage, starter: Starter | None = None) -> None:
    """Run every rank of `spec` to its end.

    on_message: called with rank 0's messages as they come
    starter:    on this machine by default

    Raises InputError or RunError with the reason of the rank that failed first; the others are ended.
    """
    starter = starter or Here()
    with starter.meeting(spec) as met:
        before = oom_kills()
        with _unwritable(spec):
            met.save()
            Whereabouts(met).create()
        with _no_stamps(met), _ranks(starter.start(met)) as processes:
            reached = _Reached(on_message)
            codes = _until_ended(met, processes, reached)
            if any(codes) and _only_noticed(met, starter, codes):
                codes = _until_given_up(processes)
        if any(codes):
            killed, stuck = starter.killed(met, codes), starter.stuck(codes) if len(codes) > 1 else []
            raise reason(met, killed, stuck, reached.text, oom_kills() - before)


@contextmanager
def _no_stamps(spec: RunSpec) -> Iterator[None]:
    try:
        yield
    finally:
        remove_stamps(spec.stamps)


@contextmanager
def _unwritable(spec: RunSpec) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(
            f"Cannot write in {spec.folder}: {error.strerror or error}. Nothing was started. Free some space or choose "
            "a folder that can be written (out=), and run the same command again."
        ) from error


def _until_ended(spec: RunSpec, processes: list[subprocess.Popen], reached: _Reached) -> list[int | None]:
    """Deliver messages until all processes have ended well, or one has not; exit codes so far."""
    messages, listener = _listen(processes[0])
    silent_since = time.monotonic()
    while True:
        if _deliver(messages, reached):
            silent_since = time.monotonic()
        codes = [p.poll() for p in processes]
        if any(codes) or None not in codes:
            if not any(codes):
                listener.join()
            _deliver(messages, reached)
            return codes
        patience = _patience(spec, reached)
        if time.monotonic() - silent_since > patience:
            _show_stacks(processes)
            raise RunError(
                f"No rank has reported anything for {patience:.0f} s; the run was stopped.{Whereabouts(spec).all()} "
                f"Logs of the ranks, with the stack of each, are in {spec.folder}. Raise engine.timeout_s if steps are "
                "really that long."
            )
        time.sleep(_POLL_SECONDS)


def _only_noticed(spec: RunSpec, starter: Starter, codes: Sequence[int | None]) -> bool:
    """Whether those that have ended so far know no reason."""
    account = failure.first(spec)
    return starter.killed(spec, codes) is None and (account is None or account.echo)


def _until_given_up(processes: list[subprocess.Popen]) -> list[int | None]:
    """Exit codes when whoever notices that ranks are leaving has left too: what is then still there hangs."""
    deadline = time.monotonic() + _NOTICE_SECONDS
    while [p.poll() for p in processes].count(None) > 1 and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    time.sleep(_LAST_SECONDS)  # the last one may be about to leave as well
    codes = [p.poll() for p in processes]
    _show_stacks(processes)
    return codes


def _show_stacks(processes: list[subprocess.Popen]) -> None:
    """Ranks print where they are (`harness.run.rank`); one that was stopped cannot."""
    asked = [process for process in processes if process.poll() is None]
    for process in asked:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGUSR1)
    if asked:
        time.sleep(_POLL_SECONDS)


class _Reached:
    """Passes messages on and remembers how far rank 0 has come."""

    def __init__(self, on_message: OnMessage) -> None:
        self._on_message = on_message
        self.text = "before the first step"
        self.training = False
        """A step is under way: not evaluation, nor what comes before the first cell."""

    def __call__(self, message: dict) -> None:
        stage = message.get("stage")
        if stage == "cell":
            self._cell = f"{message['arm']} #{message['repeat'] + 1}"
            self.text, self._steps = f"at the start of {self._cell}", message["steps"]
        elif stage == "step":
            self.text = f"after about {message['done']} steps of {self._cell}"
        self.training = stage == "step" and message["done"] < self._steps
        self._on_message(message)


def _patience(spec: RunSpec, reached: _Reached) -> float:
    """Generating a scene, compiling kernels and evaluating are silent too, and the virtual engine trains ranks one
    after the other; but a step of ranks that are processes is told soon after it is done. A little more than the
    ranks' own patience: they know better whom they wait for."""
    training = reached.training and not spec.config.engine.virtual
    return spec.config.engine.timeout_s + (_STEP_SECONDS if training else 300.0)


def _start(spec: RunSpec, rank: int) -> subprocess.Popen:
    command = [sys.executable, "-m", "harness.run.rank", spec.ranks_run, str(spec.path), str(rank)]
    own = {SUPERVISOR: str(os.getpid())} | ({} if "GLOO_SOCKET_IFNAME" in os.environ else {"GLOO_SOCKET_IFNAME": "lo"})
    with spec.log(rank).open("wb") as log:
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE if rank == 0 else log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env=environment() | own,
            start_new_session=True,
        )


def environment() -> dict[str, str]:
    """Environment of the ranks: the user's, completed. Numba does not notice when a function that a cached kernel has
    inlined changes in another file, so every version of the code has a cache of its own."""
    kernels = Path(user_cache_dir("odin-bench")) / "numba" / code_version()
    # Views allocate and free tens of MB per step; by default glibc gives them back each time, and touching fresh
    # pages costs more than some phases.
    keep = str(1 << 30)
    malloc = {"MALLOC_MMAP_THRESHOLD_": keep, "MALLOC_TRIM_THRESHOLD_": keep}
    return {"NUMBA_CACHE_DIR": str(kernels), **malloc, **os.environ, **_ONE_THREAD}


@contextmanager
def _ranks(processes: list[subprocess.Popen]) -> Iterator[list[subprocess.Popen]]:
    try:
        yield processes
    finally:
        for sent in (signal.SIGTERM, signal.SIGKILL):
            for process in processes:
                if process.poll() is None or sent == signal.SIGKILL:  # what it started may outlive it
                    with suppress(ProcessLookupError):  # it has just ended, and is not waited for yet
                        os.killpg(process.pid, sent)
            deadline = time.monotonic() + _GRACE_SECONDS
            while any(p.poll() is None for p in processes) and time.monotonic() < deadline:
                time.sleep(0.02)
        for process in processes:
            process.wait()


def _listen(process: subprocess.Popen) -> tuple[SimpleQueue, threading.Thread]:
    """A queue of the process's lines, and the thread that fills it until the process ends."""
    messages: SimpleQueue = SimpleQueue()
    stream = process.stdout
    assert stream is not None

    def read() -> None:
        with stream:
            for line in stream:
                messages.put(line)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return messages, thread


def _deliver(messages: SimpleQueue, on_message: OnMessage) -> bool:
    heard = False
    while True:
        try:
            line = messages.get_nowait()
        except Empty:
            return heard
        heard = True
        try:
            message = json.loads(line)
        except ValueError:
            continue  # a library printed something; it is not for us
        if isinstance(message, dict):
            on_message(message)
