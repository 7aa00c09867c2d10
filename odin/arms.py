"""The arms: one table of what each waits for (D§6). Every ratio is against `barrier`, every bit-identity test
against `barrier-planned`."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import Enum

from odin.errors import InputError


class Order(Enum):
    """Which views a step trains."""

    RANDOM = "random"
    PLAN = "plan"


class Waits(Enum):
    """What a step waits for before it reads the table."""

    ALL = "all"  # the whole gradient of the step before
    DDP = "ddp"  # the same, inside torch's DistributedDataParallel
    URGENT = "urgent"  # the rows of W(A) that any view of B may read
    NOTHING = "nothing"  # pending rows are read at predicted values


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One arm of a comparison.

    exact: bit-identical to `barrier-planned`
    says:  one sentence that a reviewer can check
    """

    name: str
    order: Order
    waits: Waits
    exact: bool
    says: str


ARMS: dict[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm(
            name="barrier",
            order=Order.RANDOM,
            waits=Waits.ALL,
            exact=False,
            says="Random order; every step waits for the whole gradient of the step before, sent in two buckets "
            "(colours during the projection backward, then geometry).",
        ),
        Arm(
            name="ddp",
            order=Order.RANDOM,
            waits=Waits.DDP,
            exact=False,
            says="As barrier, but inside torch's DistributedDataParallel: a bucket for colours and one for geometry on "
            "the same link, sent by its reducer during backward; on up to two ranks bit-identical to barrier.",
        ),
        Arm(
            name="barrier-planned",
            order=Order.PLAN,
            waits=Waits.ALL,
            exact=True,
            says="The plan's order, otherwise as barrier: the effect of locality order alone.",
        ),
        Arm(
            name="quality",
            order=Order.PLAN,
            waits=Waits.URGENT,
            exact=True,
            says="The plan's order; a step waits only for rows that its views may read and the step before may "
            "have written.",
        ),
        Arm(
            name="predicted",
            order=Order.PLAN,
            waits=Waits.NOTHING,
            exact=False,
            says="The plan's order; pending rows are read at their zero-gradient-step value and corrected one "
            "step later, so nothing is waited for inside a step.",
        ),
    )
}


def arm(name: str) -> Arm:
    """The arm of that name. Raises InputError naming the nearest one."""
    if name in ARMS:
        return ARMS[name]
    near = difflib.get_close_matches(name, ARMS, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise InputError(f"There is no arm {name!r}.{hint} Arms of this version: {', '.join(ARMS)}.")
