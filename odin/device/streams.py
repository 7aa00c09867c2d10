"""Streams and events of a device behind one small interface, so that their discipline is testable without a device.

Two lanes are all the runtime uses: kernels run on COMPUTE, collectives and nothing else on COMMUNICATION (D§6, D§7).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from enum import Enum
from typing import Any, Protocol

import torch


class Lane(Enum):
    """A stream of the device: what is put on it runs in order."""

    COMPUTE = "compute"
    COMMUNICATION = "communication"


class Event(Protocol):
    """A point of a lane, as `torch.cuda.Event` has it."""

    def query(self) -> bool:
        """Whether the device has reached it. Does not block."""
        ...

    def synchronize(self) -> None:
        """Block the host until the device has reached it."""
        ...

    def elapsed_time(self, end: Any, /) -> float:
        """Milliseconds from this event to another; both must have been reached."""
        ...


class Streams(Protocol):
    """The lanes of one device. Nothing here blocks the host but `synchronize`."""

    device: torch.device

    def current_stream(self) -> Lane:
        """The lane that operations go to."""
        ...

    def on(self, lane: Lane) -> AbstractContextManager[object]:
        """Send operations to `lane` for a while."""
        ...

    def record(self, lane: Lane) -> Event:
        """Mark the point that `lane` has been filled up to."""
        ...

    def wait_event(self, lane: Lane, event: Event) -> None:
        """Hold back what is put on `lane` from now on until the device has reached `event`."""
        ...

    def reached(self, event: Event) -> bool:
        """Whether the device has reached `event`. May be called from any thread."""
        ...

    def synchronize(self, event: Event) -> None:
        """Block the host until the device has reached `event`. Never inside a step."""
        ...

    def elapsed(self, start: Event, end: Event) -> float:
        """Seconds from one reached event to another, negative if `end` came first."""
        ...


class CudaStreams:
    """The lanes of a CUDA device: the stream that is current when this is made, and one of high priority, so that a
    collective does not queue behind the blocks of a long kernel.

    device: with its index, e.g. `cuda:0`
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._streams = {
            Lane.COMPUTE: torch.cuda.current_stream(device),
            Lane.COMMUNICATION: torch.cuda.Stream(device, priority=-1),
        }

    def current_stream(self) -> Lane:
        """COMMUNICATION inside `on(COMMUNICATION)`, else COMPUTE."""
        inside = torch.cuda.current_stream(self.device) == self._streams[Lane.COMMUNICATION]
        return Lane.COMMUNICATION if inside else Lane.COMPUTE

    def on(self, lane: Lane) -> AbstractContextManager[object]:
        """Send operations to `lane` for a while."""
        return torch.cuda.stream(self._streams[lane])

    def record(self, lane: Lane) -> Event:
        """A timed event at the end of `lane`."""
        event = torch.cuda.Event(enable_timing=True)
        event.record(self._streams[lane])
        return event

    def wait_event(self, lane: Lane, event: Event) -> None:
        """Hold `lane` back until `event`."""
        assert isinstance(event, torch.cuda.Event)
        self._streams[lane].wait_event(event)

    def reached(self, event: Event) -> bool:
        """Whether the device has reached `event`."""
        with torch.cuda.device(self.device):  # a watchdog's thread would open a context on device 0
            return event.query()

    def synchronize(self, event: Event) -> None:
        """Block the host until `event`."""
        event.synchronize()

    def elapsed(self, start: Event, end: Event) -> float:
        """Seconds between two reached events."""
        return start.elapsed_time(end) / 1e3
