"""Generated arrays on disk, outside the repository: written once, whole or not at all."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import platformdirs
from filelock import FileLock
from numpy.typing import NDArray

from harness.scenes.spec import Progress

Arrays = dict[str, NDArray]


def cache_folder() -> Path:
    """$ODIN_CACHE, or the user's cache folder of odin-bench."""
    configured = os.environ.get("ODIN_CACHE")
    return Path(configured).expanduser() if configured else Path(platformdirs.user_cache_dir("odin-bench"))


def cached(name: str, generate: Callable[[], Arrays], *, progress: Progress) -> Arrays:
    """The arrays stored under `name` (which must say everything they depend on), generated when absent.

    Processes that ask for the same name at once wait for the first. A damaged file is generated again.
    Where the folder cannot be written, the arrays are returned without being stored, and progress says so.
    """
    file = cache_folder() / f"{name}.npz"
    found = _read(file)
    if found is not None:
        return found
    with _exclusive(file):
        found = _read(file)
        if found is not None:
            return found
        arrays = generate()
        try:
            _write(file, arrays)
        except OSError as error:
            progress(f"{file} cannot be written ({error}); this capture is generated anew each time")
        return arrays


@contextmanager
def _exclusive(file: Path) -> Iterator[None]:
    """Hold a lock beside `file`; without one where folder or file system do not allow it."""
    lock = FileLock(file.with_suffix(".lock"))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except (OSError, NotImplementedError):
        # Two writers are then possible: each renames a whole file over the other's, which is equal.
        yield
        return
    try:
        yield
    finally:
        lock.release()


def _read(file: Path) -> Arrays | None:
    try:
        # Opened here, because np.load leaves the file open when it does not like what it reads.
        with file.open("rb") as raw, np.load(raw, allow_pickle=False) as stored:
            return dict(stored)
    except FileNotFoundError:
        return None
    # What numpy and zipfile raise for files that are cut off or overwritten.
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
        return None


def _write(file: Path, arrays: Arrays) -> None:
    with tempfile.NamedTemporaryFile(dir=file.parent, prefix=file.stem, suffix=".tmp", delete=False) as whole:
        temporary = Path(whole.name)
        try:
            np.savez(whole, **arrays)  # type: ignore[arg-type]  # numpy's stub takes ** for allow_pickle
            whole.close()
            temporary.chmod(0o644)  # temporary files are private; a cache may be shared
            temporary.replace(file)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
