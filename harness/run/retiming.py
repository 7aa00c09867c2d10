"""Which cells of a virtual sequence need no training, because another one trains the same bits (D§5, D§7).

Exact arms that follow one plan train the same values; they differ in when things happen, and that is what re-timing
computes from a recorded trajectory (`odin.replay`). Where an arm waits for everything, nothing but the plan enters its
timeline, and a repeat of an arm has the timeline of its first run, since prices have no spread: these are copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from odin.arms import Arm, Waits
from odin.publication import UrgentPublication, WaitingPublication
from odin.runtime import policy_of


class Way(Enum):
    """How the record of a cell comes about."""

    TRAIN = "train"
    RETIME = "retime"  # the runtime once more on the recorded trajectory of another cell
    COPY = "copy"  # another cell has the same timeline


@dataclass(frozen=True, kw_only=True)
class Job:
    """One cell, by its place in the sequence.

    source: the cell whose record or trajectory is used; None when trained
    record: a later job re-times this one's trajectory
    """

    index: int
    way: Way
    source: int | None = None
    record: bool = False


def retimable(arm: Arm) -> bool:
    """Whether an arm trains the bits of waiting training in its order and has been shown to be re-timed exactly:
    arms that wait for everything, and `quality` with any of its switches. `paper-quality` inflates scopes by more,
    so its row lists are others'."""
    if arm.audit or arm.waits is Waits.DDP:
        return False
    return policy_of(arm) in (WaitingPublication, UrgentPublication)


def jobs(arms: Sequence[Arm], plan_digest: Callable[[Arm], str]) -> list[Job]:
    """Jobs of a sequence of cells, each after the one that it needs."""
    leaders = _leaders(arms, plan_digest)
    made: dict[int, Job] = {}
    for index, arm in enumerate(arms):
        first = next((k for k in range(index) if _same_timeline(arms[k], arm, plan_digest)), None)
        leader = leaders.get(plan_digest(arm), index) if retimable(arm) else index
        if first is not None:
            made[index] = Job(index=index, way=Way.COPY, source=first)
        elif leader != index:
            made[index] = Job(index=index, way=Way.RETIME, source=leader)
        else:
            made[index] = Job(index=index, way=Way.TRAIN)
    wanted = {job.source for job in made.values() if job.way is Way.RETIME}
    return _in_order([Job(index=j.index, way=j.way, source=j.source, record=j.index in wanted) for j in made.values()])


def _leaders(arms: Sequence[Arm], plan_digest: Callable[[Arm], str]) -> dict[str, int]:
    """Plan → the cell that is trained for all: the first that takes scopes, since waiting arms record none."""
    leaders: dict[str, int] = {}
    for index, arm in enumerate(arms):
        if retimable(arm) and policy_of(arm) is UrgentPublication:
            leaders.setdefault(plan_digest(arm), index)
    return leaders


def _same_timeline(a: Arm, b: Arm, plan_digest: Callable[[Arm], str]) -> bool:
    if a == b:
        return True
    waiting = all(retimable(arm) and policy_of(arm) is WaitingPublication for arm in (a, b))
    return waiting and plan_digest(a) == plan_digest(b)


def _in_order(found: Sequence[Job]) -> list[Job]:
    """As they stand, but a source before what needs it."""
    placed: dict[int, Job] = {}
    by_index = {job.index: job for job in found}

    def place(job: Job) -> None:
        if job.source is not None and job.source not in placed:
            place(by_index[job.source])
        placed.setdefault(job.index, job)

    for job in found:
        place(job)
    return list(placed.values())
