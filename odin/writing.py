"""What may happen to a file on its way to the disk: empty, unless a test of the harness asks for a full disk.

Every writer that replaces whole files calls `about_to_replace` when the new content lies beside its place.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Disturbance = Callable[[Path, Path], None]

_disturbances: list[Disturbance] = []


def disturb(disturbance: Disturbance) -> None:
    """From now on call it with every (temporary file, its place); it may damage the former, raise OSError, or end this
    process."""
    _disturbances.append(disturbance)


def about_to_replace(temporary: Path, place: Path) -> None:
    """`temporary` is complete and `place` still as it was."""
    for disturbance in _disturbances:
        disturbance(temporary, place)
