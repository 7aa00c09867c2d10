"""The states of a cell and the locks that tell that one is running; imports no record."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

from filelock import FileLock, Timeout

from odin.errors import InputError

RESULT, PAIR = "result.json", "pair"


class State(StrEnum):
    """done ≠ failed ≠ skipped ≠ running ≠ pending."""

    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    RUNNING = "running"
    PENDING = "pending"


def pair_lock(root: Path, pair: str) -> FileLock:
    """The lock that a pair holds while it runs. Raises InputError on a name that cannot be one."""
    return FileLock(root / "locks" / f"{plain_name(pair)}.lock")


def is_running(root: Path, marker: Path) -> bool:
    """Whether the pair that a cell's marker names is held by some process."""
    try:
        lock = pair_lock(root, marker.read_text(encoding="utf-8").strip())
        with lock.acquire(timeout=0):
            return False
    except Timeout:  # before OSError, whose subclass it is
        return True
    except OSError:  # no marker; or a store that this user may only read and so cannot be running
        return False


def plain_name(name: str) -> str:
    """The name, if it can be one of a file. Raises InputError."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise InputError(f"{name!r} cannot name a record: letters, digits, '.', '_' and '-' only.")
    return name
