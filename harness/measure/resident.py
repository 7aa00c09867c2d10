"""The most memory that this process held during a block (Linux; elsewhere nothing is known)."""

from __future__ import annotations

import contextlib
from pathlib import Path

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_KIB = 1024


class Resident:
    """Bytes of the resident set: `before` at construction, and `peak` since then.

    Where the system does not let the peak be set back, it is that since the process began, and only growth beyond it
    is seen. None where the system tells nothing.
    """

    def __init__(self) -> None:
        with contextlib.suppress(OSError):
            _RESET.write_text("5", encoding="ascii")  # sets the high-water mark back to what is held now
        self.before = _read("VmRSS")

    @property
    def peak(self) -> int | None:
        """Most bytes held since construction."""
        return _read("VmHWM")


def _read(field: str) -> int | None:
    try:
        lines = _STATUS.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    values = [int(line.split()[1]) * _KIB for line in lines if line.startswith(f"{field}:")]
    return values[0] if values else None
