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
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple, Protocol

from platformdirs import user_cache_dir

from harness.run import failure
from harness.run.spec import RunSpec
from harness.store.identity import code_version
from odin.errors import InputError, RunError

OnMessage = Callable[[dict], None]

_POLL_SECONDS = 0.1
_GRACE_SECONDS = 3.0
# One thread per rank: ranks share the cores, and more threads than cores slow all of them down.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


class Killed(NamedTuple):
    """A rank that could leave no account: who, e.g. "Rank 3 on n2", and how, e.g. "it was ended by SIGKILL"."""

    who: str
    how: str


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


class Here:
    """All ranks on this machine, a process each."""

    nodes = 1

    def meeting(self, spec: RunSpec) -> AbstractContextManager[RunSpec]:
        """The file in the run's folder."""
        return nullcontext(spec)

    def start(self, spec: RunSpec) -> list[subprocess.Popen]:
        """One process per rank."""
        ranks = range(1 if spec.config.engine.virtual else spec.config.engine.ranks)
        return [_start(spec, rank) for rank in ranks]

    def killed(self, spec: RunSpec, codes: Sequence[int | None]) -> Killed | None:
        """A process that a signal ended."""
        gone = [(rank, -code) for rank, code in enumerate(codes) if code is not None and code < 0]
        return Killed(f"Rank {gone[0][0]}", f"it was ended by {signal.Signals(gone[0][1]).name}") if gone else None


def launch(spec: RunSpec, on_message: OnMessage, starter: Starter | None = None) -> None:
    """Run every rank of `spec` to its end.

    on_message: called with rank 0's messages as they come
    starter:    on this machine by default

    Raises InputError or RunError with the reason of the rank that failed first; the others are ended.
    """
    starter = starter or Here()
    with starter.meeting(spec) as met:
        met.save()
        with _ranks(starter.start(met)) as processes:
            reached = _Reached(on_message)
            codes = _until_ended(met, processes, reached)
        if any(codes):
            raise _reason(met, starter, codes, reached.text)


def _until_ended(spec: RunSpec, processes: list[subprocess.Popen], on_message: OnMessage) -> list[int | None]:
    """Deliver messages until all processes have ended well, or one has not; exit codes so far."""
    messages, listener = _listen(processes[0])
    silent_since = time.monotonic()
    while True:
        if _deliver(messages, on_message):
            silent_since = time.monotonic()
        codes = [p.poll() for p in processes]
        if any(codes) or None not in codes:
            if not any(codes):
                listener.join()
            _deliver(messages, on_message)
            return codes
        if time.monotonic() - silent_since > _patience(spec):
            raise RunError(
                f"No rank has reported anything for {_patience(spec):.0f} s; the run was stopped. Logs of the "
                f"ranks are in {spec.folder}. Raise engine.timeout_s if steps are really that long."
            )
        time.sleep(_POLL_SECONDS)


class _Reached:
    """Passes messages on and remembers how far rank 0 has come."""

    def __init__(self, on_message: OnMessage) -> None:
        self._on_message = on_message
        self.text = "before the first step"

    def __call__(self, message: dict) -> None:
        stage = message.get("stage")
        if stage == "cell":
            self._cell = f"{message['arm']} #{message['repeat'] + 1}"
            self.text = f"at the start of {self._cell}"
        elif stage == "step":
            self.text = f"about step {message['done']} of {self._cell}"
        self._on_message(message)


def _patience(spec: RunSpec) -> float:
    """Generating a scene and compiling kernels are silent too, so the first minutes are free."""
    return spec.config.engine.timeout_s + 300.0


def _start(spec: RunSpec, rank: int) -> subprocess.Popen:
    engine = "harness.run.virtual" if spec.config.engine.virtual else "harness.run.worker"
    command = [sys.executable, "-m", engine, str(spec.path), str(rank)]
    with spec.log(rank).open("wb") as log:
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE if rank == 0 else log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env=environment() | ({"GLOO_SOCKET_IFNAME": "lo"} if "GLOO_SOCKET_IFNAME" not in os.environ else {}),
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
                if process.poll() is None:
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
        on_message(message)


def _reason(spec: RunSpec, starter: Starter, codes: Sequence[int | None], reached: str) -> InputError | RunError:
    """Why the first rank went. A rank that was killed leaves no account; the others only noticed its absence."""
    killed, account = starter.killed(spec, codes), failure.first(spec)
    if killed is not None and (account is None or account.echo):
        return RunError(
            f"{killed.who} was the first to go, {reached}: {killed.how} (out of memory, or a kill from outside). All "
            f"ranks were stopped; records of finished cells are intact. Logs: {spec.folder}."
        )
    if account is not None:
        return account.error(spec)
    # E.g. a node that does not see the folder: its ranks cannot even leave an account.
    return RunError(f"A rank ended without giving a reason, {reached}; see the logs in {spec.folder}.")
