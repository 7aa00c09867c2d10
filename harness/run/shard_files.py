"""Where sharded checkpoints lie; importing this module imports no torch. Legend: W owners."""

from __future__ import annotations

import re
from pathlib import Path

COMPLETE = "complete"
_STEP = re.compile(r"step-(\d{6,})")
OWNER = re.compile(r"owner-\d{1,4}-of-(\d{1,4})\.npz")


def owner_file(folder: Path, rank: int, ranks: int) -> Path:
    """Where an owner's rows lie in a checkpoint."""
    return folder / f"owner-{rank}-of-{ranks}.npz"


def newest(folder: Path) -> Path | None:
    """The newest whole checkpoint below a folder, or None."""
    found = [path.parent for path in folder.glob(f"step-*/{COMPLETE}") if step_of(path.parent) is not None]
    return max(found, key=lambda path: step_of(path) or 0, default=None)


def step_of(folder: Path) -> int | None:
    """The step of a checkpoint by its name; names of seven digits and more sort before those of six."""
    found = _STEP.fullmatch(folder.name)
    return int(found[1]) if found else None
