"""What one rank's audits must do: a step that is due is audited, and a failed audit is heeded (D§6 Predicted reads).

A plain reference, written on sets of steps. What an audit finds is worked out again from the gradients of all ranks.
"""

from __future__ import annotations

from collections import Counter

from odin.arms import Waits
from odin.model.actions import Read, Wait
from odin.model.facts import Facts
from odin.model.invariants import BrokenError, Invariant
from odin.recipe import Event


class Audits:
    """Follows reads and waits. Methods raise BrokenError.

    fallen: steps that follow a failed audit, up to the one before which a structural event comes
    """

    def __init__(self, facts: Facts, rank: int) -> None:
        self._scenario, self._policy = facts.scenario, facts.scenario.policy
        self._audited = frozenset(step for step, by in facts.recomputed if by == rank)
        failed = [step for step in range(self._scenario.steps) if facts.audit_fails(step)]
        self.fallen = frozenset(s for step in failed for s in self._following(step))
        self._due = frozenset(s for s in range(self._scenario.steps) if self._is_due(s)) - self.fallen
        self._reads: Counter[int] = Counter()  # step → reads of its views, and those of an audit behind them

    def read(self, action: Read) -> None:
        """One more."""
        self._reads[action.step] += 1

    def wait(self, action: Wait) -> None:
        """An arm that waits for nothing inside a step does so only after a failed audit."""
        step, reads = action.step, self._scenario.views_per_unit * (2 if self._scenario.splittable else 1)
        if self._policy.waits is Waits.NOTHING and step not in self.fallen and self._reads[step] < reads:
            reason = f"{action.name} is waited for before step {step} has read everything, though no audit has failed"
            raise BrokenError(Invariant.FALLBACK, f"{reason} since the last structural event")

    def publish(self, step: int) -> None:
        """The step is over."""
        if step in self._due - self._audited:
            raise BrokenError(Invariant.AUDIT, f"the audit of step {step} is due, but there was none")
        if step in self._audited - self._due:
            raise BrokenError(Invariant.AUDIT, f"step {step} was audited, but no audit was due")

    def _following(self, step: int) -> range:
        """Steps that follow a failed audit of this one. An event before the next window changes nothing yet."""
        steps = self._scenario.steps
        return range(step + 1, next((s + 1 for s in range(step + 1, steps) if self._scenario.event(s)), steps))

    def _is_due(self, step: int) -> bool:
        """Whether the step is the first that can be audited in its period."""
        every = self._policy.audit
        if not every or step < every:
            return False
        period = range(step - step % every, step + 1)
        return next((s for s in period if self._can_be(s)), None) == step

    def _can_be(self, step: int) -> bool:
        """Whether the step may have read something late, and keeps its gradient."""
        opens = self._policy.sas and self._policy.waits not in (Waits.ALL, Waits.DDP)
        return opens and not self._scenario.blocks(step - 1) and Event.DENSIFY not in self._scenario.event(step)
