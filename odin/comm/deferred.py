"""Arrivals whose stamps are device events: usable by the device at once, readable by the host when a cell is over."""

from __future__ import annotations

from collections.abc import Callable

from odin.comm.transport import Arrival


class DeferredArrival(Arrival):
    """An arrival that is read later. Reading a stamp before its transport has settled raises, instead of making the
    host wait in mid-step."""

    def __init__(self, read: Callable[[], Arrival]) -> None:
        self._read = read

    def resolve(self) -> Arrival:
        """The arrival with its stamps. AssertionError before `settle`."""
        return self._read()

    @property
    def joined(self) -> float:
        """See Arrival."""
        return self.resolve().joined

    @property
    def last_join(self) -> float:
        """See Arrival."""
        return self.resolve().last_join

    @property
    def start(self) -> float:
        """See Arrival."""
        return self.resolve().start

    @property
    def finish(self) -> float:
        """See Arrival."""
        return self.resolve().finish

    @property
    def real(self) -> float:
        """See Arrival."""
        return self.resolve().real
