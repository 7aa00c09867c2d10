"""What a record says of a cell's jitter."""

from __future__ import annotations

from collections.abc import Sequence

from harness.jitter.playing import jittered
from harness.jitter.program import Price, program_of
from harness.store.schema import Jitter
from odin.arms import Arm, Dispatch
from odin.keeper import Entry

# The sources of committed prices name no spread, so this one is assumed.
SIGMA = 0.05
DRAWS = 16


def jitter_of(
    arm: Arm,
    entries: Sequence[Sequence[Entry]],
    joins: Sequence[Sequence[int]],
    *,
    price: Price,
    slowdown: float,
    steps: int,
) -> Jitter | None:
    """A virtual cell re-timed `DRAWS` times; None where re-timing cannot say what would have happened: an arm that
    hands out views by the clock, a timeline that does not tell its program, or one that takes no time. A cell that is
    trained is never lost for this."""
    program = None if arm.dispatch is Dispatch.TIME else program_of(entries, joins, price)
    if program is None:
        return None
    seconds = tuple(jittered(program, slowdown, SIGMA, draw) / steps for draw in range(DRAWS))
    return Jitter(sigma=SIGMA, step_seconds=seconds) if all(s > 0 for s in seconds) else None
