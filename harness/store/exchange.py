"""What mixed parallelism moves and what of it ranks wait for, as it stands in a record (D§6, D§11)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from harness.store.record import Count, Positive, Reading, Record


class Transfer(Record):
    """One kind of transfer.

    carried: s per step, that the link spends on it
    exposed: s per step, that a rank waits for it
    hidden:  1 − exposed ÷ carried: the share off the critical path
    nbytes:  per step, that a rank sends to others
    """

    carried: float
    exposed: float
    hidden: Reading
    nbytes: float


class Redistributed(Record):
    """Owners at one densification.

    moved:         rows that changed their owner; 0 where all stayed
    before, after: rows of the fullest owner ÷ mean over owners
    """

    step: Count
    moved: Count
    before: Annotated[float, Field(ge=1)]
    after: Annotated[float, Field(ge=1)]


class Exchange(Record):
    """A sharded cell's traffic and memory.

    shards:      owners
    owner_bytes: most that an owner holds of parameters, moments and gradient
    extra_bytes: most that it holds besides while a step is rendered: values that observed views were projected from,
                 gradients on their way, row lists
    redistributed: in the order of densifications
    """

    observe: Transfer
    publish: Transfer
    shards: Positive
    owner_bytes: Count
    extra_bytes: Count
    redistributed: tuple[Redistributed, ...] = ()
