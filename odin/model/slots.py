"""One rank's slots: whose gradient each holds, and what of it has left.

Legend: an element is a (group, row), see `odin.model.actions`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from odin.model.actions import COLOURS, GEOMETRY, VISIBLE, Apply, Clear, Element, Inspect, Launch, Write
from odin.model.invariants import BrokenError, Invariant, Need
from odin.model.scenario import Scenario


@dataclass
class Slot:
    """Owner of a slot, and with which collective each element of it has left.

    scratch: an audit's recomputation, of which nothing leaves
    """

    step: int = -1
    scratch: bool = False
    left: dict[Element, int] = field(default_factory=dict)


class Slots:
    """Follows what happens to the slots. Methods raise BrokenError."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._slots: dict[int, Slot] = {}

    def clear(self, action: Clear) -> tuple[Slot, Slot]:
        """The slot goes to the rank's step; before and after. A second one in the same step is an audit's."""
        before = self._slot(action.slot)
        scratch = any(slot.step == action.step and not slot.scratch for slot in self._slots.values())
        after = self._slots[action.slot] = Slot(action.step, scratch)
        return before, after

    def write(self, action: Write) -> None:
        """Only the step's own slot, and only what has not left yet."""
        slot = self._slot(action.slot)
        if slot.step != action.step:
            raise BrokenError(Invariant.SLOT, f"slot {action.slot} belongs to step {slot.step}, not {action.step}")
        for row in action.rows:
            if (action.group, row) in slot.left:
                number = slot.left[action.group, row]
                raise BrokenError(Invariant.SLOT, f"row {row} has already left with collective {number}")

    def launch(self, action: Launch) -> None:
        """Every element leaves once, and none of a recomputation."""
        if action.slot is None:
            return
        slot = self._slot(action.slot)
        twice = [row for group, row in action.elements if (group, row) in slot.left]
        slot.left.update(dict.fromkeys(action.elements, action.number))
        if twice:
            raise BrokenError(Invariant.ORDER, f"row {twice[0]} leaves a second time: its sum would be summed again")
        if slot.scratch:
            raise BrokenError(Invariant.SLOT, f"slot {action.slot} holds a recomputed gradient, which must not leave")

    def inspect(self, action: Inspect) -> Need:
        """Looking is safe before the gradient leaves and after its sum has arrived, not in between."""
        left = self._slot(action.slot).left
        return Need(max((left.get((g, row), -1) for g in (GEOMETRY, COLOURS) for row in action.rows), default=-1))

    def use(self, action: Apply, elements: Iterable[Element]) -> Need:
        """The sums that an update takes from a slot."""
        if action.slot is None:
            return Need()
        slot = self._slot(action.slot)
        if self._scenario.updates(slot.step + 1) != action.t:
            reason = f"update {action.t} is not that of step {slot.step}, whose gradient slot {action.slot} holds"
            raise BrokenError(Invariant.SLOT, reason)
        marks = [(VISIBLE, row) for row in action.rows] if self._scenario.selective else []
        wanted = [*elements, *marks]
        missing = [row for group, row in wanted if (group, row) not in slot.left]
        if missing:
            raise BrokenError(Invariant.ARRIVED, f"the gradient of row {missing[0]} has not even left")
        return Need(max(slot.left[element] for element in wanted))

    def _slot(self, number: int) -> Slot:
        return self._slots.setdefault(number, Slot())
