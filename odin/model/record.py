"""One program of actions per rank, by running the runtime over a scenario."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import torch

from odin.arms import Dispatch
from odin.comm.transport import Arrival, Handle
from odin.keeper import Keeper
from odin.model.actions import Action, Agree, Finish, Launch, Refuse, Wait
from odin.model.meeting import Meeting, StuckError
from odin.model.scenario import Scenario
from odin.model.world import ModelLedger, ModelRecipe, Notes
from odin.publication import Publication
from odin.runtime import Runtime

Program = tuple[Action, ...]

_UNNAMED = "message"


class _Sum:
    """A collective under way; `name` is known once somebody waits for it."""

    def __init__(self, transport: ModelTransport, number: int, tensor: torch.Tensor) -> None:
        self.nbytes = tensor.numel() * tensor.element_size()
        self.number = number
        self._transport, self._tensor = transport, tensor

    def wait(self) -> Arrival:
        return self._transport.finish(self.number, self._tensor)


class _NamingKeeper(Keeper):
    """Remembers the names under which collectives are waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[int, str] = {}

    def wait(self, handle: Handle, name: str) -> Arrival:
        if isinstance(handle, _Sum):
            self.names[handle.number] = name
        return super().wait(handle, name)


class ModelTransport:
    """One rank's view of the meeting; notes what the rank launches and waits for."""

    def __init__(self, meeting: Meeting, rank: int, ranks: int, notes: Notes) -> None:
        self.rank, self.ranks = rank, ranks
        self._meeting, self._notes = meeting, notes

    def all_reduce(self, tensor: torch.Tensor, joined: float) -> Handle:
        """See Transport."""
        number = self._meeting.join(self.rank, tensor)
        leaving, self._notes.leaving = self._notes.leaving, None
        launch = Launch(step=self._notes.step, number=number, name=_UNNAMED, size=tensor.numel())
        if leaving is not None:
            slot, segment = leaving
            launch = replace(launch, name=segment.name, slot=slot.number, elements=slot.elements(segment))
        self._notes.add(launch)
        return _Sum(self, number, tensor)

    def finish(self, number: int, tensor: torch.Tensor) -> Arrival:
        """Wait for a collective. A second wait for the same one is none."""
        note = Wait(step=self._notes.step, number=number, name=_UNNAMED)
        self._notes.add(note)
        self._meeting.finish(self.rank, number, tensor)
        return Arrival(joined=0.0, last_join=0.0, start=0.0, finish=0.0, real=0.0)

    def agree(self, step: int, digest: int) -> None:
        """Note the cut; that ranks differ is for the model to find."""
        self._notes.add(Agree(step=step, digest=digest))

    def reduce_now(self, tensor: torch.Tensor, op: str = "sum") -> None:
        """See Transport."""
        self.all_reduce(tensor, 0.0).wait()

    def barrier(self) -> None:
        """A sum of nothing."""
        self.reduce_now(torch.zeros(1))

    def close(self) -> None:
        """Nothing is held."""


def record(scenario: Scenario, policy: type[Publication] | None = None) -> tuple[Program, ...]:
    """The program of every rank. `policy` replaces that of the arm.

    Raises ValueError for an arm that looks at the clock: its programs are not the same in every interleaving.
    """
    if scenario.policy.dispatch is Dispatch.TIME:
        raise ValueError(f"{scenario.arm} dispatches by measured time; the model knows no clock")
    meeting = Meeting(scenario.ranks)
    programs: list[Program] = [()] * scenario.ranks

    def run(rank: int) -> None:
        programs[rank] = _record_rank(scenario, policy, meeting, rank)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(scenario.ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tuple(programs)


def _record_rank(scenario: Scenario, policy: type[Publication] | None, meeting: Meeting, rank: int) -> Program:
    keeper = _NamingKeeper()
    notes = Notes(keeper)
    try:
        runtime = Runtime(
            ModelRecipe(scenario, notes),
            scenario.plan(),
            scenario.policy,
            ModelTransport(meeting, rank, scenario.ranks, notes),
            keeper,
            policy=policy,
            budget=scenario.budget(),
        )
        _watch(runtime.publication, notes)
        runtime.run()
        notes.add(Finish(step=notes.step))
    except StuckError:
        pass  # the program ends with a wait that nothing ends
    except Exception as error:
        notes.add(Refuse(step=notes.step, reason=f"{type(error).__name__}: {error}"))
    finally:
        meeting.leave()
    return tuple(_named(notes.actions, keeper.names))


def _watch(publication: Publication, notes: Notes) -> None:
    """Let the policy, and the one that takes over after an audit, keep their gradients in noting slots."""
    ledger = ModelLedger(publication.ledger.ring, notes)
    publication.ledger = ledger
    if publication.fallback is not None:
        publication.fallback.ledger = ledger


def _named(actions: Sequence[Action], names: dict[int, str]) -> list[Action]:
    """Messages get the name under which they are waited for."""
    return [
        replace(action, name=names.get(action.number, _UNNAMED))
        if isinstance(action, Launch | Wait) and action.name == _UNNAMED
        else action
        for action in actions
    ]
