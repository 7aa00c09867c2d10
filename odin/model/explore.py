"""Every interleaving of the ranks' programs with the link.

A state is how far each rank has come and how many collectives are complete. The link completes collectives in launch
order, one at a time, each any time after all ranks have joined it. A rank's sum may arrive later than another's; as a
rank only sees its own arrivals, that adds nothing to what it can do or see.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from odin.model.check import check
from odin.model.invariants import Fault, Invariant, Op
from odin.model.record import Program, record
from odin.model.scenario import Scenario

State = tuple[int, ...]  # how many actions each rank has done, and how many collectives are complete
LINK = -1


@dataclass(frozen=True, kw_only=True)
class Violation:
    """A state in which an invariant does not hold, and a shortest way there."""

    scenario: Scenario
    fault: Fault
    trace: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{self.fault.invariant.name}: {self.fault.invariant.value}", self.scenario.text(), *self.trace]
        return "\n".join([*lines, f"here {self.fault.reason}"])


@dataclass(frozen=True, kw_only=True)
class Exploration:
    """What a scenario's interleavings amount to. `states` are distinct; a violation ends the search."""

    states: int
    violation: Violation | None


def explore(scenario: Scenario, programs: Sequence[Program] | None = None) -> Exploration:
    """Visit every state of a scenario, whose ranks' programs may have been recorded before."""
    return Explorer(scenario, check(scenario, programs or record(scenario))).run()


class Explorer:
    """Breadth-first search over the states of one scenario."""

    def __init__(self, scenario: Scenario, programs: Sequence[Sequence[Op]]) -> None:
        self._scenario, self._programs = scenario, programs
        self._ranks = range(len(programs))
        self._ends = [len(program) for program in programs]
        self._sent = [[op.launches for op in program if op.launches is not None] for program in programs]
        self._joined = [_running_count(program) for program in programs]
        sequences = [tuple(sent) for sent in self._sent]
        self._equal = len(set(sequences)) == 1

    def run(self) -> Exploration:
        """Visit every state."""
        start: State = (*(0 for _ in self._ranks), 0)
        seen, layer = {start}, [start]
        while layer:
            following = []
            for state in layer:
                moved = False
                for mover, successor in self._moves(state):
                    moved = True
                    fault = self._fault(state, mover)
                    if fault is not None:
                        return Exploration(states=len(seen), violation=self._violation(state, mover, fault))
                    if successor not in seen:
                        seen.add(successor)
                        following.append(successor)
                if not moved and (fault := self._at_rest(state)) is not None:
                    return Exploration(states=len(seen), violation=self._violation(state, None, fault))
            layer = following
        return Exploration(states=len(seen), violation=None)

    def _moves(self, state: State) -> Iterator[tuple[int, State]]:
        """Who can go on, and where that leads."""
        complete = state[-1]
        if all(self._joined[rank][state[rank]] > complete for rank in self._ranks):
            yield LINK, (*state[:-1], complete + 1)
        for rank in self._ranks:
            at = state[rank]
            if at < self._ends[rank] and self._programs[rank][at].waits < complete:
                yield rank, (*state[:rank], at + 1, *state[rank + 1 :])

    def _fault(self, state: State, mover: int) -> Fault | None:
        """What the action of a rank breaks in this state."""
        if mover == LINK:
            return None
        op = self._programs[mover][state[mover]]
        if op.fault is not None:
            return op.fault
        if op.needs.number >= state[-1]:
            number = op.needs.number
            reason = f"collective {number} ({self._sent[mover][number][0]}) is not complete"
            return Fault(op.needs.invariant, reason)
        if op.launches is not None and not self._equal:
            return self._differing(state, mover)
        return None

    def _differing(self, state: State, mover: int) -> Fault | None:
        number = self._joined[mover][state[mover]]
        for rank in self._ranks:
            if self._joined[rank][state[rank]] > number and self._sent[rank][number] != self._sent[mover][number]:
                return Fault(Invariant.COLLECTIVES, f"rank {rank} has launched something else as number {number}")
        return None

    def _at_rest(self, state: State) -> Fault | None:
        """Nobody can go on: is it the end?"""
        unfinished = [rank for rank in self._ranks if state[rank] < self._ends[rank]]
        if unfinished:
            return Fault(Invariant.DEADLOCK, "; ".join(self._awaited(rank, state) for rank in unfinished))
        if not self._equal:
            return Fault(Invariant.COLLECTIVES, "some ranks have launched more than others")
        return None

    def _awaited(self, rank: int, state: State) -> str:
        number = self._programs[rank][state[rank]].waits
        absent = [str(r) for r in self._ranks if self._joined[r][state[r]] <= number]
        return f"rank {rank} waits for collective {number}, not launched by rank {' and '.join(absent)}"

    # Traces -------------------------------------------------------------------------------------------------

    def _violation(self, state: State, mover: int | None, fault: Fault) -> Violation:
        steps = self._way_to(state)
        if mover is not None:
            steps.append((mover, state))
        return Violation(
            scenario=self._scenario, fault=fault, trace=tuple(self._line(mover, state) for mover, state in steps)
        )

    def _way_to(self, goal: State) -> list[tuple[int, State]]:
        """Who moved in which state on a shortest way from the start; the search is repeated with its steps kept."""
        start: State = (*(0 for _ in self._ranks), 0)
        came: dict[State, tuple[int, State] | None] = {start: None}
        layer = [start]
        while goal not in came:
            following = []
            for state in layer:
                for mover, successor in self._moves(state):
                    if successor not in came:
                        came[successor] = (mover, state)
                        following.append(successor)
            layer = following
        way = []
        while (step := came[goal]) is not None:
            way.append(step)
            goal = step[1]
        return way[::-1]

    def _line(self, mover: int, state: State) -> str:
        if mover == LINK:
            return f"link            delivers collective {state[-1]} ({self._sent[0][state[-1]][0]})"
        action = self._programs[mover][state[mover]].action
        return f"rank {mover}  step {action.step}  {action.text()}"


def _running_count(program: Sequence[Op]) -> list[int]:
    """How many collectives a rank has joined before each of its actions, and at the end."""
    counts = [0]
    for op in program:
        counts.append(counts[-1] + (op.launches is not None))
    return counts
