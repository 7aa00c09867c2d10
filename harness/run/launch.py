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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue

from platformdirs import user_cache_dir

from harness.run.spec import RunSpec
from harness.store.identity import code_version
from odin.errors import InputError, RunError

OnMessage = Callable[[dict], None]

_POLL_SECONDS = 0.1
_GRACE_SECONDS = 3.0
# One thread per rank: ranks share the cores, and more threads than cores slow all of them down.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def launch(spec: RunSpec, on_message: OnMessage) -> None:
    """Run every rank of `spec` to its end.

    on_message: called with rank 0's messages as they come

    Raises InputError or RunError with the reason of the rank that failed first; the others are ended.
    """
    path = spec.save()
    ranks = range(1 if spec.config.engine.virtual else spec.config.engine.ranks)
    with _ranks([_start(spec, str(path), rank) for rank in ranks]) as processes:
        messages, listener = _listen(processes[0])
        silent_since = time.monotonic()
        while True:
            if _deliver(messages, on_message):
                silent_since = time.monotonic()
            codes = [p.poll() for p in processes]
            failed = [r for r, code in zip(ranks, codes, strict=True) if code not in (None, 0)]
            if failed:
                raise _reason(spec, failed[0], codes)
            if all(code == 0 for code in codes):
                listener.join()
                _deliver(messages, on_message)
                return
            if time.monotonic() - silent_since > _patience(spec):
                raise RunError(
                    f"No rank has reported anything for {_patience(spec):.0f} s; the run was stopped. Logs of the "
                    f"ranks are in {spec.folder}. Raise engine.timeout_s if steps are really that long."
                )
            time.sleep(_POLL_SECONDS)


def _patience(spec: RunSpec) -> float:
    """Generating a scene and compiling kernels are silent too, so the first minutes are free."""
    return spec.config.engine.timeout_s + 300.0


def _start(spec: RunSpec, path: str, rank: int) -> subprocess.Popen:
    engine = "harness.run.virtual" if spec.config.engine.virtual else "harness.run.worker"
    command = [sys.executable, "-m", engine, path, str(rank)]
    with spec.log(rank).open("wb") as log:
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE if rank == 0 else log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env={**_defaults(), **os.environ, **_ONE_THREAD},
            start_new_session=True,
        )


def _defaults() -> dict[str, str]:
    """Environment of the ranks where the user has not set it. Numba does not notice when a function that a cached
    kernel has inlined changes in another file, so every version of the code has a cache of its own."""
    kernels = Path(user_cache_dir("odin-bench")) / "numba" / code_version()
    # Views allocate and free tens of MB per step; by default glibc gives them back each time, and touching fresh
    # pages costs more than some phases.
    keep = str(1 << 30)
    malloc = {"MALLOC_MMAP_THRESHOLD_": keep, "MALLOC_TRIM_THRESHOLD_": keep}
    return {"GLOO_SOCKET_IFNAME": "lo", "NUMBA_CACHE_DIR": str(kernels), **malloc}


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


def _reason(spec: RunSpec, first: int, codes: list[int | None]) -> InputError | RunError:
    """Why the first rank went. A rank that was killed leaves no note; the others only noticed its absence."""
    killed = [r for r, code in enumerate(codes) if code is not None and code < 0]
    if killed:
        name = signal.Signals(-codes[killed[0]]).name  # type: ignore[operator]
        return RunError(
            f"Rank {killed[0]} was the first to go: it was ended by {name} (out of memory, or a kill from outside). "
            f"All ranks were stopped; records of finished cells are intact. Log: {spec.log(killed[0])}."
        )
    note = spec.failure(first)
    text = note.read_text(encoding="utf-8") if note.exists() else f"no reason given, see {spec.log(first)}"
    if codes[first] == InputError.exit_code:
        return InputError(text)
    return RunError(f"Rank {first} was the first to fail: {text} All ranks were stopped.")
