"""One rank's rows: how many updates each element has, and whether its last one is only a zero-gradient step so far."""

from __future__ import annotations

from collections.abc import Iterable

from odin.model.actions import COLOURS, GEOMETRY, Apply, Element, column_name
from odin.model.facts import Facts
from odin.model.invariants import BrokenError, Invariant


class Updates:
    """Follows the updates. `done` counts those that an element has. Methods raise BrokenError."""

    def __init__(self, facts: Facts) -> None:
        self._facts, self._scenario = facts, facts.scenario
        elements = [(group, row) for group in (GEOMETRY, COLOURS) for row in range(self._scenario.rows)]
        self.done: dict[Element, int] = dict.fromkeys(elements, 0)
        self._zero: dict[Element, int] = dict.fromkeys(elements, 0)  # update of the last zero-gradient step

    def apply(self, action: Apply, elements: Iterable[Element]) -> None:
        """Each element takes its next update."""
        follow = {"update": self._update, "zero": self._zero_step, "correct": self._correct}[action.kind]
        for element in elements:
            follow(element, action.t)

    def _update(self, element: Element, t: int) -> None:
        if self._zero[element] == t:
            reason = f"row {element[1]} has taken update {t} already, as a zero-gradient step"
            raise BrokenError(Invariant.ORDER, reason)
        self._require_turn(element, t)
        self.done[element] = t

    def _zero_step(self, element: Element, t: int) -> None:
        """Where the gradient is 0 on all ranks this is the update; elsewhere it is a prediction."""
        self._require_turn(element, t)
        self._zero[element] = t
        if element[1] not in self._facts.touched(t):
            self.done[element] = t

    def _correct(self, element: Element, t: int) -> None:
        if self._zero[element] != t:
            raise BrokenError(Invariant.ORDER, f"row {element[1]} is corrected by update {t} without its zero step")
        self.done[element] = t

    def _require_turn(self, element: Element, t: int) -> None:
        done = self.done[element]
        if done != t - 1:
            raise BrokenError(Invariant.ORDER, f"row {element[1]} takes update {t} when it has {done} of {t - 1}")

    def require_published(self, step: int, invariant: Invariant, where: str) -> None:
        """Every element has the updates of all steps up to this one."""
        t = self._scenario.updates(step + 1)
        for (group, row), done in self.done.items():
            if done < t:
                raise BrokenError(invariant, f"row {row} ({column_name(group)}) has {done} of {t} updates {where}")
