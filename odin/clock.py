"""Sleeping to a moment of the monotonic clock."""

from __future__ import annotations

import time

# Below this a sleep overshoots by more than it sleeps (about 60 µs on Linux); the rest is spun.
_SPIN_SECONDS = 6e-5


def sleep_until(moment: float) -> None:
    """Return at monotonic second `moment`, within a few microseconds, or at once if it has passed."""
    while (left := moment - time.monotonic()) > 0:
        if left > _SPIN_SECONDS:
            time.sleep(left - _SPIN_SECONDS)
