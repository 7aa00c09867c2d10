"""The ledger of pending publications and the ring of slots they live in (D§6 Ledger and Shadow Graph)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from odin.comm.transport import Handle
from odin.layout import ColumnLayout
from odin.memory import Holding, MemoryCategory
from odin.rows import Update
from odin.slot import GradientSlot, Segment

RING = 2  # a third slot brings nothing without skew and 2–3 % at 25 % skew (RUNTIME.md 2)


@dataclass(kw_only=True)
class Pending:
    """A computed, not yet fully published step.

    update:   what its optimizer step was bound to at launch
    slot:     its gradient
    launched: its segments under way, in link order, with the rows each still has to publish
    """

    step: int
    update: Update
    slot: GradientSlot
    launched: deque[tuple[Segment, Handle, NDArray[np.int32]]] = field(default_factory=deque)


class Ledger:
    """Slots and pending steps. At most two steps are pending, and a slot is reused only after publication."""

    def __init__(self) -> None:
        self._slots: list[GradientSlot] = []
        self._pending: deque[Pending] = deque()

    def resize(self, rows: int, layout: ColumnLayout) -> None:
        """New slots after a structural event; nothing may be pending."""
        self.require_flushed()
        self._slots = [GradientSlot(rows, layout) for _ in range(RING)]

    def fits(self, rows: int) -> bool:
        """Whether the slots are those of a table of so many rows."""
        return bool(self._slots) and self._slots[0].row_count == rows

    def slot(self, step: int) -> GradientSlot:
        """The slot a step accumulates into. Raises if its last owner is still pending."""
        slot = self._slots[step % RING]
        if any(p.slot is slot for p in self._pending):
            raise AssertionError(f"step {step} would overwrite a gradient that is not published yet")
        return slot

    def push(self, pending: Pending) -> None:
        """Enter a computed step. Raises when two are pending already."""
        if len(self._pending) >= RING:
            raise AssertionError(f"step {pending.step} would be the third pending one")
        self._pending.append(pending)

    def oldest(self) -> Pending | None:
        """The pending step that must be published next, if any."""
        return self._pending[0] if self._pending else None

    def newest(self) -> Pending | None:
        """The step entered last, if it is still pending."""
        return self._pending[-1] if self._pending else None

    def done(self, pending: Pending) -> None:
        """Take a fully published step out. Publication is in step order."""
        if pending is not self._pending[0] or pending.launched:
            raise AssertionError(f"step {pending.step} is not the oldest fully published one")
        self._pending.popleft()

    def require_flushed(self) -> None:
        """Raise unless everything is published."""
        if self._pending:
            raise AssertionError(f"{len(self._pending)} steps are still pending at a structural barrier")

    def holdings(self) -> Iterator[Holding]:
        """The slots, of which a synchronized trainer needs the first, and the rows still to publish (`odin.memory`)."""
        for number, slot in enumerate(self._slots):
            yield from slot.holdings(MemoryCategory.EXTRA_SLOT if number else MemoryCategory.GRADIENT)
        for pending in self._pending:
            for _, _, rows in pending.launched:
                yield MemoryCategory.ROW_LISTS, rows
