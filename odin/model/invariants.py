"""What must hold, and how an action tells the explorer what it depends on and what it breaks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from odin.model.actions import Action, Element


class Invariant(Enum):
    """What must hold in every state."""

    PENDING_READ = "in an exact arm nobody reads a row whose last update is not applied"
    LATE_READ = "a read skips at most one update of a row"
    GATE = "a row is read late only on evidence that it may be"
    SCOPE = "a view touches only rows of its scope"
    ORDER = "every update of a row is applied exactly once, in the order of steps"
    ARRIVED = "a gradient is used only when its sum has arrived"
    SLOT = "a slot is written only by its step, before the gradient leaves, and reused only after publication"
    AUDIT = "a step is audited when it is due, and no other is"
    FALLBACK = "from a failed audit to the next structural event reads are waited for, and no longer"
    FLUSHED = "nothing is pending at a structural event and at the end"
    UNITS = "every view of a step is computed by one rank"
    COLLECTIVES = "all ranks launch the same collectives in the same order"
    DEADLOCK = "somebody can always go on"
    GUARD = "the runtime does not stop by itself"


@dataclass(frozen=True)
class Fault:
    """A broken invariant and how."""

    invariant: Invariant
    reason: str


@dataclass(frozen=True)
class Need:
    """A collective that must be complete when an action happens (-1: none), and what is broken if it is not."""

    number: int = -1
    invariant: Invariant = Invariant.ARRIVED


@dataclass(frozen=True, kw_only=True)
class Op:
    """An action as the explorer needs it.

    waits:    collective that must be complete before the action can happen; -1 for none
    needs:    collective that is relied on without waiting for it
    launches: name, size and elements of the collective that it joins, None if it joins none
    fault:    what it breaks whatever the other ranks do
    """

    action: Action
    waits: int = -1
    needs: Need = Need()
    launches: tuple[str, int, tuple[Element, ...]] | None = None
    fault: Fault | None = None


class BrokenError(Exception):
    """An invariant does not hold."""

    def __init__(self, invariant: Invariant, reason: str) -> None:
        super().__init__(reason)
        self.fault = Fault(invariant, reason)
