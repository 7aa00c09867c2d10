"""The machine itself: interpreter, cores, memory, disk, shared memory, caches, git."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.doctor.finding import Finding, missing, ok, warn

SHARED_MEMORY = Path("/dev/shm")
OLDEST_PYTHON = (3, 11)
# Two ranks with torch, Numba and a small scene take about 1.5 GB together; records of a study about 0.1 GB.
MEMORY_GB = 4.0
DISK_GB = 2.0
SHARED_GB = 0.05  # join stamps and the buffers of two ranks


def python(version: tuple[int, int] | None = None) -> Finding:
    """The interpreter that runs us."""
    if (version or sys.version_info[:2]) < OLDEST_PYTHON:
        return missing("python", platform.python_version(), "python3.11 -m venv .venv && make install")
    return ok("python", f"{platform.python_version()} ({sys.executable})")


def cores(count: int | None = None) -> Finding:
    """Cores that this process may use, which in a container are fewer than the machine's."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    usable = usable if count is None else count
    if usable < 2:
        return warn("cores", f"{usable}: two ranks share it; padding hides that, wall time does not")
    return ok("cores", f"{usable} usable")


def memory(available_gb: float | None = None) -> Finding:
    """Memory that is free now."""
    import psutil

    free = psutil.virtual_memory().available / 1e9 if available_gb is None else available_gb
    text = f"{free:.1f} GB available"
    return ok("memory", text) if free >= MEMORY_GB else warn("memory", f"{text}, {MEMORY_GB:.0f} GB advised")


def disk(folder: Path) -> Finding:
    """Free space where records will lie."""
    place = folder.resolve()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free / 1e9
    text = f"{free:.1f} GB free in {place}"
    if not os.access(place, os.W_OK):
        return missing("disk", f"{place} cannot be written to", "odin-bench reproduce headline out=FOLDER")
    if free < DISK_GB:
        return warn("disk", f"{text}, {DISK_GB:.0f} GB advised", "odin-bench reproduce headline out=FOLDER")
    return ok("disk", text)


def shared_memory(folder: Path = SHARED_MEMORY) -> Finding:
    """Where ranks stamp when they join a collective."""
    if not folder.is_dir():
        return warn("shared memory", f"no {folder}: join stamps go to {tempfile.gettempdir()}")
    remount = f"mount -o remount,size=1G {folder}  (in a container: --shm-size=1g)"
    if not writable(folder):
        return missing("shared memory", f"{folder} cannot be written to", f"chmod 1777 {folder}")
    free = shutil.disk_usage(folder).free / 1e9
    text = f"{folder}: {free:.2f} GB free"
    return ok("shared memory", text) if free >= SHARED_GB else missing("shared memory", text, remount)


def numba_cache(sources: Path) -> Finding:
    """Where compiled kernels are kept; without it every rank compiles for about 15 s at every start."""
    configured = os.environ.get("NUMBA_CACHE_DIR")
    # Numba's own order: the configured folder, beside the sources, the user's cache.
    user = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "numba"
    for folder in [Path(configured)] if configured else [sources, user]:
        if writable(folder):
            return ok("numba cache", str(folder))
    return warn("numba cache", "no folder can be written to", "export NUMBA_CACHE_DIR=$(mktemp -d)")


def scene_cache() -> Finding:
    """Where procedural scenes are kept."""
    from platformdirs import user_cache_dir

    folder = Path(os.environ.get("ODIN_CACHE") or user_cache_dir("odin-bench")).expanduser()
    if writable(folder):
        return ok("scene cache", str(folder))
    return missing("scene cache", f"{folder} cannot be written to", "export ODIN_CACHE=$(mktemp -d)")


def git(repository: Path) -> Finding:
    """The commit that records name."""
    if shutil.which("git") is None:
        return warn("git", "not installed: records cannot name their commit", "apt-get install git")
    command = ["git", "-C", str(repository), "rev-parse", "--short", "HEAD"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    if answer.returncode:
        return warn("git", f"no commit in {repository}: {answer.stderr.strip().splitlines()[-1]}")
    return ok("git", f"commit {answer.stdout.strip()}")


def writable(folder: Path) -> bool:
    """Whether a file can be made in the folder, or in the nearest one above it that exists."""
    place = folder.resolve()
    while not place.exists():
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            return True
    except OSError:
        return False
