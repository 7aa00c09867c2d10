"""What the programs of all ranks say together: scopes, gradients, and which rows may be read late.

Which rows those are is a plain reference of the gate (D§6 Throughput gate), written on sets: a row is read late only if
its evidence is known and at most τ times the mean over the active rows of the step before.

Legend: steps A → B.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from odin.arms import AUDIT_LIMIT, Evidence, Waits
from odin.model.actions import Action, Read, Write
from odin.model.scenario import Scenario

ROUNDING = 1.0 + 1e-6  # norms and their mean are float32 in the runtime
Norms = Mapping[int, float]
Visit = tuple[int, int]  # step, view


@dataclass(kw_only=True)
class Facts:
    """Of all ranks.

    scopes:     step → rows that any view of it projects
    gradients:  (step, rank) → row → size of the rank's gradient
    recomputed: the same of an audit, only where there was one
    views:      (step, view) → rows that the view projects
    active:     (step, view) → rows that it has a gradient at
    owners:     (step, view) → ranks that compute it
    """

    scenario: Scenario
    scopes: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    gradients: dict[tuple[int, int], dict[int, float]] = field(default_factory=lambda: defaultdict(dict))
    recomputed: dict[tuple[int, int], dict[int, float]] = field(default_factory=lambda: defaultdict(dict))
    views: dict[Visit, frozenset[int]] = field(default_factory=dict)
    active: dict[Visit, frozenset[int]] = field(default_factory=dict)
    owners: dict[Visit, set[int]] = field(default_factory=lambda: defaultdict(set))

    def step_of(self, t: int) -> int:
        """The step whose gradient is the t-th update."""
        return next(step for step in range(self.scenario.steps) if self.scenario.updates(step + 1) == t)

    def touched(self, t: int) -> frozenset[int]:
        """Rows whose gradient in the t-th update differs from 0."""
        return frozenset(row for row, norm in self.norms(self.step_of(t)).items() if norm > 0)

    def norms(self, step: int) -> Norms:
        """Norm of the reduced gradient at each row, divided by the views of the step."""
        views = self.scenario.ranks * self.scenario.views_per_unit
        total: dict[int, float] = defaultdict(float)
        for rank in range(self.scenario.ranks):
            for row, size in self.gradients[step, rank].items():
                total[row] += size / views
        return total

    def local_norms(self, step: int, rank: int) -> Norms:
        """Norm of the rank's own gradient at each row, divided by the views of its unit."""
        return {row: size / self.scenario.views_per_unit for row, size in self.gradients[step, rank].items()}

    def audit_fails(self, step: int) -> bool:
        """Whether the step was audited and its gradient is further from the recomputed one than is allowed."""
        wrong = truth = 0.0
        for rank in range(self.scenario.ranks):
            read, published = self.gradients.get((step, rank), {}), self.recomputed.get((step, rank), {})
            wrong += sum((read.get(row, 0.0) - published.get(row, 0.0)) ** 2 for row in {*read, *published})
            truth += sum(size**2 for size in published.values())
        return any(at == step for at, _ in self.recomputed) and wrong > AUDIT_LIMIT**2 * truth

    def may_be_late(self, step: int, rank: int, opened: Norms, now: Norms) -> frozenset[int]:
        """Rows whose update of A = step the rank may skip in B.

        opened, now: norm at each row's last publication, as A was cut and as B reads
        """
        arm, scope = self.scenario.policy, self.scopes[step]
        if arm.waits is Waits.NOTHING:
            return frozenset(range(self.scenario.rows))
        if arm.waits not in (Waits.GATED, Waits.LITERAL):
            return frozenset()
        if arm.evidence is Evidence.REDUCED:
            norms = self.norms(step)
            return _passing(norms, _mean(norms.values()), arm.tau)
        if arm.evidence is Evidence.LOCAL:
            return _passing(self.local_norms(step, rank), _mean(now.get(row, 0.0) for row in scope), arm.tau)
        return _passing(opened, _mean(opened.get(row, 0.0) for row in scope), arm.tau)

    def most_late(self, step: int) -> float:
        """How many rows B = step may read late, as ρ is held."""
        arm = self.scenario.policy
        held = arm.waits is Waits.LITERAL or (arm.waits is Waits.GATED and arm.rho)
        return arm.tau * len(self.scopes[step]) if held else float("inf")


def gather(scenario: Scenario, programs: Sequence[Sequence[Action]]) -> Facts:
    """Facts of a set of programs."""
    facts = Facts(scenario=scenario)
    for rank, program in enumerate(programs):
        _gather(facts, rank, program)
    return facts


def _gather(facts: Facts, rank: int, program: Iterable[Action]) -> None:
    projected: dict[int, list[int]] = defaultdict(list)
    gradients: dict[int, int] = defaultdict(int)  # step → views whose gradient is complete
    slots: dict[int, int] = {}  # of the step itself; an audit recomputes into the other one
    for action in program:
        step = action.step
        if isinstance(action, Read):
            projected[step] += [action.view] if action.lo == 0 else []
            facts.owners[step, action.view].add(rank)
            facts.scopes[step].update(action.rows)
            facts.views.setdefault((step, action.view), frozenset(action.rows))
        if isinstance(action, Write) and action.group == 0:
            if slots.setdefault(step, action.slot) != action.slot:
                _add(facts.recomputed[step, rank], action)
                continue
            view = projected[step][gradients[step]]
            gradients[step] += 1
            _add(facts.gradients[step, rank], action)
            facts.active[step, view] = frozenset(r for r, s in zip(action.rows, action.sizes, strict=True) if s > 0)


def _add(sizes: dict[int, float], write: Write) -> None:
    for row, size in zip(write.rows, write.sizes, strict=True):
        sizes[row] = sizes.get(row, 0.0) + size


def _mean(norms: Iterable[float]) -> float:
    known = [norm for norm in norms if norm > 0]
    return sum(known) / len(known) if known else float("nan")


def _passing(norms: Norms, mean: float, tau: float) -> frozenset[int]:
    return frozenset(row for row, norm in norms.items() if 0 < norm <= tau * mean * ROUNDING)
