"""The ledger of pending publications and the ring of slots they live in (D§6 Ledger and Shadow Graph)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from odin.comm.transport import Handle
from odin.layout import ColumnLayout
from odin.memory import Holding, MemoryCategory
from odin.points import Point
from odin.rows import Update
from odin.segments import Part
from odin.slot import GradientSlot, MakeSlot, Segment, Slot

RING = 2  # a third slot brings nothing without skew and 2–3 % at 25 % skew (RUNTIME.md 2)


@dataclass(kw_only=True)
class Pending:
    """A step whose gradient is under way: launched, not yet fully published.

    update:    what its optimizer step was bound to at launch
    slot:      its gradient
    under_way: segments that were launched and not waited for yet, in link order
    due:       parts that are not published yet, by the point of the next step at which they are
    """

    step: int
    update: Update
    slot: Slot
    under_way: deque[tuple[Segment, Handle]] = field(default_factory=deque)
    due: dict[Point, list[tuple[Segment, Part]]] = field(default_factory=dict)

    def launched(self, segment: Segment, handle: Handle) -> None:
        """Enter a segment and what it will publish."""
        self.under_way.append((segment, handle))
        for part in segment.spec.parts:
            if len(part.rows):
                self.due.setdefault(part.due, []).append((segment, part))

    @property
    def published(self) -> bool:
        """Nothing is under way and nothing is left to publish."""
        return not self.under_way and not self.due


class Ledger:
    """Slots and pending steps. At most two steps are pending, and a slot is reused only after publication.

    ring: number of slots; anything but two is for the test that shows what a third one would break
    make: makes a slot where the table is
    """

    def __init__(self, ring: int = RING, make: MakeSlot = GradientSlot) -> None:
        self.ring, self._make = ring, make
        self._slots: list[Slot] = []
        self._pending: deque[Pending] = deque()

    def resize(self, rows: int, layout: ColumnLayout) -> None:
        """New slots after a structural event; nothing may be pending."""
        self.require_flushed()
        self._slots = [self._make(rows, layout) for _ in range(self.ring)]

    def fits(self, rows: int) -> bool:
        """Whether the slots are those of a table of so many rows."""
        return bool(self._slots) and self._slots[0].row_count == rows

    def slot(self, step: int) -> Slot:
        """The slot a step accumulates into. Raises if its last owner is still pending."""
        slot = self._slots[step % self.ring]
        if any(p.slot is slot for p in self._pending):
            raise AssertionError(f"step {step} would overwrite a gradient that is not published yet")
        return slot

    def push(self, pending: Pending) -> None:
        """Enter a computed step. Raises when two are pending already."""
        if len(self._pending) >= self.ring:
            raise AssertionError(f"step {pending.step} would be the third pending one")
        self._pending.append(pending)

    def pending(self, step: int) -> Pending | None:
        """The entry of a step, if it is pending."""
        return next((p for p in self._pending if p.step == step), None)

    def done(self, pending: Pending) -> None:
        """Take a fully published step out. Publication is in step order."""
        if pending is not self._pending[0] or not pending.published:
            raise AssertionError(f"step {pending.step} is not the oldest fully published one")
        self._pending.popleft()

    def require_flushed(self) -> None:
        """Raise unless everything is published."""
        if self._pending:
            raise AssertionError(f"{len(self._pending)} steps are still pending at a structural barrier")

    def holdings(self) -> Iterator[Holding]:
        """The slots, of which a synchronized trainer needs the first (`odin.memory`). Rows still to publish are listed
        by their slot's segments."""
        for number, slot in enumerate(self._slots):
            yield from slot.holdings(MemoryCategory.EXTRA_SLOT if number else MemoryCategory.GRADIENT)
