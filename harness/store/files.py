"""Whole files or none: written beside their place, flushed, then renamed over it."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from odin.errors import RunError
from odin.writing import about_to_replace


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path in the folder of `path`; it replaces `path` when the block ends without an error.

    Whatever goes wrong inside, `path` keeps what it held. Raises RunError when the system refuses to write.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        about_to_replace(temporary, path)
        _flush(temporary)
        temporary.replace(path)
        _flush(path.parent)
    except OSError as error:
        raise RunError(
            f"Cannot write {path}: {error.strerror or error}. What was recorded before is intact. Free some "
            "space or choose a folder that can be written, and run the same command again: it does what is "
            "missing."
        ) from error
    finally:
        _forget(temporary)


def write_text(path: Path, text: str) -> None:
    """Replace the file by this UTF-8 text, whole or not at all. Raises RunError."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def read_json(path: Path) -> Any:
    """What a UTF-8 file of JSON holds. Raises OSError, or ValueError where it is no such file or nests too deeply."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("it nests too deeply") from error


def _forget(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:  # the folder is gone or read-only: nothing was left behind that matters
        return


def _flush(path: Path) -> None:
    # A rename is durable only when the file and the folder that names it have both reached the disk.
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sweep(folder: Path) -> None:
    """Remove what writers that were killed have left in a folder; nobody may be writing there."""
    for path in folder.glob(".*.tmp"):
        _forget(path)


def copy_file(source: Path, path: Path) -> None:
    """Replace the file by a copy of another, whole or not at all. Raises RunError."""
    with replacing(path) as temporary:
        shutil.copyfile(source, temporary)
