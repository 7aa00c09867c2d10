"""How jobs ended, from what they leave behind: for a Slurm that tells nothing, or that uses an old job's number again.

submissions/<name>/outcomes/<pair>, table    state, node and time of a job, by itself
"""

from __future__ import annotations

import functools
import json
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.store.files import write_text
from slurm.states import GONE, JobState, controller_answers, job_states
from slurm.submission import Submission

TABLE = "table"  # the job that follows the pairs
RUNNING, COMPLETED, FAILED = "RUNNING", "COMPLETED", "FAILED"
# A job that has ended so long ago, and that Slurm says is active, has a namesake.
_NAMESAKE_SECONDS = 300.0
# Where Slurm tells nothing, a job that has not begun so long after its submission, or is over its time, is given up.
_PATIENCE_SECONDS = 3600.0


@contextmanager
def outcome(folder: Path, key: str) -> Iterator[None]:
    """Note in a submission's folder that a job runs, and how the block ends."""
    _note(folder, key, RUNNING)
    try:
        yield
    except BaseException:
        _note(folder, key, FAILED)
        raise
    _note(folder, key, COMPLETED)


def states_of(made: Sequence[Submission]) -> list[tuple[Submission, str, str, JobState]]:
    """Every job of the submissions with its pair's key (or `table`), its id and its state."""
    jobs = [(s, key, job) for s in made for key, job in (*s.jobs.items(), (TABLE, s.reduce)) if job]
    known = job_states(job for _, _, job in jobs)
    blind = GONE in {state.state for state in known.values()} and not controller_answers()
    if blind:
        _say_once("Neither sacct nor scontrol answers; states of jobs are read from what the jobs have left.")
    return [(s, key, job, _state(s, key, known[job], blind=blind)) for s, key, job in jobs]


def _state(made: Submission, key: str, told: JobState, *, blind: bool) -> JobState:
    """What Slurm tells of a job, or what it has left where that says more."""
    left = _read(made.folder, key)
    since = made.folder.stat().st_mtime if left is None else left[1]
    ended = left is not None and left[0].state != RUNNING
    if told.state == GONE and (ended or blind):
        limit = _PATIENCE_SECONDS + 3600.0 * made.profile.hours
        own = left[0] if left is not None else JobState(state="PENDING")
        return own if ended or time.time() - since < limit else told
    if told.active and ended and left is not None and time.time() - since > _NAMESAKE_SECONDS:
        return left[0]
    return told


def _note(folder: Path, key: str, state: str) -> None:
    write_text(
        folder / "outcomes" / key, json.dumps({"state": state, "node": socket.gethostname(), "time": time.time()})
    )


def _read(folder: Path, key: str) -> tuple[JobState, float] | None:
    try:
        data = json.loads((folder / "outcomes" / key).read_text(encoding="utf-8"))
        return JobState(state=str(data["state"]), nodes=str(data["node"])), float(data["time"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


@functools.cache
def _say_once(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
