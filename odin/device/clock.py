"""Moments of device events on the host's monotonic clock, read only when nothing is being timed.

CUDA gives the time between two events as float32 milliseconds, which after a minute are steps of 4 µs, and a device's
clock has its own rate. So events are measured from mileposts, one per step, and the mileposts are tied to the host's
clock by anchors before and after what is timed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from odin.device.streams import Event, Lane, Streams

_TRIES = 5  # the first one also waits for what was under way


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """An event and the number of the milepost before it."""

    event: Event
    milepost: int


class EventClock:
    """The clock of one rank's device. `anchor` must be called before the first stamp and after the last."""

    def __init__(self, streams: Streams) -> None:
        self.streams = streams
        self._mileposts: list[Event] = []
        self._seconds: list[float] = []  # device time of mileposts since the first, as far as they were read
        self._device: list[float] = []  # device time of anchors
        self._host: list[float] = []  # and the host's clock there

    def milepost(self) -> Stamp:
        """A stamp on COMPUTE that later ones are measured from."""
        self._mileposts.append(self.streams.record(Lane.COMPUTE))
        return Stamp(event=self._mileposts[-1], milepost=len(self._mileposts) - 1)

    def stamp(self, lane: Lane) -> Stamp:
        """Record a timed event."""
        if not self._host:
            raise AssertionError("an event was stamped before the clock was anchored")
        return Stamp(event=self.streams.record(lane), milepost=len(self._mileposts) - 1)

    def anchor(self) -> float:
        """Tie the device's clock to the host's; the moment. Blocks until COMPUTE is empty."""
        tries = [self._try() for _ in range(_TRIES)]
        _, moment, milepost = min(tries)
        self._host.append(moment)
        self._device.append(self._until(milepost))
        return moment

    def _try(self) -> tuple[float, float, int]:
        """Width of the interval in which the device reached a milepost, its middle, and the milepost."""
        before = time.monotonic()
        stamp = self.milepost()
        self.streams.synchronize(stamp.event)
        after = time.monotonic()
        return after - before, (before + after) / 2, stamp.milepost

    def moment(self, stamp: Stamp) -> float:
        """When the device reached a stamp: monotonic seconds, interpolated between anchors."""
        device = self._until(stamp.milepost) + self.streams.elapsed(self._mileposts[stamp.milepost], stamp.event)
        if device > self._device[-1]:
            raise AssertionError("a stamp was read before the clock was anchored after it")
        return float(np.interp(device, self._device, self._host))

    def _until(self, milepost: int) -> float:
        while len(self._seconds) <= milepost:
            k = len(self._seconds)
            gap = self.streams.elapsed(self._mileposts[k - 1], self._mileposts[k]) if k else 0.0
            self._seconds.append((self._seconds[-1] if k else 0.0) + gap)
        return self._seconds[milepost]
