"""What one rank's views may read: how recent a row must be, and when one may be read late.

Legend: steps A → B.
"""

from __future__ import annotations

from odin.arms import Waits
from odin.model.actions import Element, Read, column_name
from odin.model.audits import Audits
from odin.model.facts import Facts
from odin.model.invariants import BrokenError, Invariant
from odin.model.updates import Updates


class Reads:
    """Follows reads, and what is known about rows when they are decided on. Methods raise BrokenError."""

    def __init__(self, facts: Facts, rank: int, updates: Updates, audits: Audits) -> None:
        self._facts, self._rank, self._scenario, self._updates = facts, rank, facts.scenario, updates
        self._audits = audits
        self._norms: dict[int, float] = {}  # of each row at its last publication
        self._active: dict[int, frozenset[int]] = {}  # view → rows with a gradient at its last published visit
        self._opened: dict[int, tuple[dict[int, float], dict[int, frozenset[int]]]] = {}  # both, as a step was opened
        self._late: dict[int, set[int]] = {}  # step → rows read late

    def open(self, step: int) -> None:
        """A step is cut by what is known now; activity starts anew after a blocking window."""
        if step and self._scenario.blocks(step - 1):
            self._active = {}
        self._opened[step] = dict(self._norms), dict(self._active)

    def publish(self, step: int) -> None:
        """Norms and activity of a step are known from now on."""
        self._norms.update({row: norm for row, norm in self._facts.norms(step).items() if norm > 0})
        self._active.update({view: rows for (at, view), rows in self._facts.active.items() if at == step})

    def read(self, action: Read) -> None:
        """A view reads its rows."""
        ranks = sorted(self._facts.owners[action.step, action.view])
        if len(ranks) > 1:
            raise BrokenError(Invariant.UNITS, f"view {action.view} is computed by ranks {ranks}")
        if action.missed:
            raise BrokenError(Invariant.SCOPE, f"view {action.view} touches row {action.missed[0]}, not in its scope")
        for group in range(action.lo, action.hi):
            for row in action.rows:
                self._read(action.step, (group, row))

    def _read(self, step: int, element: Element) -> None:
        done, due, (group, row) = self._updates.done[element], self._scenario.updates(step), element
        if done >= due:
            return
        state = f"row {row} ({column_name(group)}) has {done} of {due} updates"
        if self._scenario.policy.exact:
            raise BrokenError(Invariant.PENDING_READ, state)
        if done < due - 1:
            raise BrokenError(Invariant.LATE_READ, state)
        if step in self._audits.fallen:
            raise BrokenError(Invariant.FALLBACK, f"{state}, although an audit has failed")
        self._late.setdefault(step, set()).add(row)
        self._require_lawful(step, row)

    def _require_lawful(self, step: int, row: int) -> None:
        """B = step reads a row of A late."""
        facts, before = self._facts, self._facts.step_of(self._scenario.updates(step))
        norms, active = self._opened[before]
        passing = facts.may_be_late(before, self._rank, norms, self._norms)
        if row not in passing:
            raise BrokenError(Invariant.GATE, f"row {row} is read late, but its norm does not pass the gate")
        late = self._late[step]
        if len(late) > facts.most_late(step):
            rows = len(facts.scopes[step])
            raise BrokenError(Invariant.GATE, f"{len(late)} of {rows} rows are read late, more than ρ allows")
        if self._scenario.policy.waits is Waits.LITERAL:
            if self._writes(step, row, active):
                raise BrokenError(Invariant.GATE, f"row {row} is read late, but step {step} also writes it")
            written = facts.scopes[before] & facts.scopes[step]
            self._require_all(step, {r for r in written if not self._writes(step, r, active)}, passing)

    def _require_all(self, step: int, only_read: set[int], passing: frozenset[int]) -> None:
        """`paper-literal` reads rows late that B does not write, and those only together."""
        if len(only_read) > self._facts.most_late(step):
            rows = len(self._facts.scopes[step])
            raise BrokenError(Invariant.GATE, f"{len(only_read)} of {rows} rows are only read, more than ρ allows")
        if failing := sorted(only_read - passing):
            raise BrokenError(Invariant.GATE, f"rows are read late, but row {failing[0]} does not pass the gate")

    def _writes(self, step: int, row: int, active: dict[int, frozenset[int]]) -> bool:
        """Whether a view of the step wrote the row at its last visit; one without a visit may write its scope."""
        views = [view for unit in self._scenario.units[step] for view in unit]
        return any(row in active.get(view, self._facts.views.get((step, view), frozenset())) for view in views)
