"""The invariants, as far as a rank's own program decides them.

What a rank has read, written and applied is a function of how far it has come in its program, so these invariants are
evaluated once along each program; an action that breaks one carries the fault. What depends on the other ranks and on
the link (whether a sum has arrived, who has launched what, whether anybody can go on) is left to `explore`.
"""

from __future__ import annotations

from collections.abc import Sequence

from odin.model.actions import (
    Action,
    Apply,
    Clear,
    Finish,
    Inspect,
    Launch,
    Publish,
    Read,
    Refuse,
    Restructure,
    Wait,
    Write,
)
from odin.model.audits import Audits
from odin.model.facts import Facts, gather
from odin.model.invariants import BrokenError, Invariant, Need, Op
from odin.model.reads import Reads
from odin.model.scenario import Scenario
from odin.model.slots import Slots
from odin.model.updates import Updates


def check(scenario: Scenario, programs: Sequence[Sequence[Action]]) -> tuple[tuple[Op, ...], ...]:
    """The programs with what each action needs and breaks. Writes of no rows are left out."""
    facts = gather(scenario, programs)
    return tuple(
        _Checker(facts, rank).run([action for action in program if not isinstance(action, Write) or action.rows])
        for rank, program in enumerate(programs)
    )


class _Checker:
    """Follows one rank's program."""

    def __init__(self, facts: Facts, rank: int) -> None:
        self._slots, self._updates = Slots(facts.scenario), Updates(facts)
        self._audits = Audits(facts, rank)
        self._reads = Reads(facts, rank, self._updates, self._audits)
        self._launched = -1

    def run(self, program: Sequence[Action]) -> tuple[Op, ...]:
        """Every action with its fault, if it has one."""
        return tuple(self._op(action) for action in program)

    def _op(self, action: Action) -> Op:
        needs, fault = Need(), None
        try:
            needs = self._follow(action)
        except BrokenError as broken:
            fault = broken.fault
        waits, launches = -1, None
        if isinstance(action, Wait):
            waits = action.number
        if isinstance(action, Launch):
            self._launched, launches = action.number, (action.name, action.size, action.elements)
        return Op(action=action, waits=waits, needs=needs, launches=launches, fault=fault)

    def _follow(self, action: Action) -> Need:
        """Follow an action; what it relies on. Raises BrokenError."""
        match action:
            case Read():
                self._audits.read(action)
                self._reads.read(action)
            case Wait():
                self._audits.wait(action)
            case Write():
                self._slots.write(action)
            case Launch():
                self._slots.launch(action)
            case Publish():
                self._audits.publish(action.published)
                self._reads.publish(action.published)
                self._updates.require_published(action.published, Invariant.ORDER, "when its step is published")
            case Inspect():
                return self._slots.inspect(action)
            case Apply():
                elements = [(group, row) for group in range(action.lo, action.hi) for row in action.rows]
                self._updates.apply(action, elements)
                return self._slots.use(action, elements)
            case Clear():
                return self._clear(action)
            case Restructure() | Finish():
                where = "at the end" if isinstance(action, Finish) else "at a structural event"
                self._updates.require_published(action.step, Invariant.FLUSHED, where)
                return Need(self._launched, Invariant.FLUSHED)
            case Refuse():
                raise BrokenError(Invariant.GUARD, "a guard of the runtime has stopped it")
        return Need()

    def _clear(self, action: Clear) -> Need:
        """A slot changes hands: its last owner is published, and nothing of it is under way."""
        before, after = self._slots.clear(action)
        if not after.scratch:
            self._reads.open(action.step)
        if before.step >= 0 and not before.scratch:
            self._updates.require_published(before.step, Invariant.SLOT, f"when slot {action.slot} is cleared")
        return Need(max(before.left.values(), default=-1), Invariant.SLOT)
