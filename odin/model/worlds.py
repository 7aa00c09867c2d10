"""Families of scenarios: every pattern of a row for tiny sizes, and seeded samples that also vary what patterns leave
out (rows that move into scopes, gradients, events, budgets, more ranks and steps).

Legend: N rows, S steps, W ranks, U views per unit.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import product

from odin.model.scenario import NEVER, Scenario
from odin.recipe import Event

ROWS = 4  # of a scenario at most; patterns are packed so many to a scenario

_EVENTS = [Event.NONE] * 5 + [Event.DENSIFY, Event.RESET]
_APPEARS = [0, 0, 0, NEVER, NEVER, 1, 2]
_SIZES = [0, 1, 1, 2, 9]
_EARLY = [None, None, 0, 1, 2]
_LEAD = [None, 0, 1]


def every_pattern(arm: str, *, ranks: int, unit: int, steps: int, lead: int | None = None) -> Iterator[Scenario]:
    """Every way in which the views of the steps can touch a row, 2^(W·U·S) patterns, each once.

    Rows meet each other in a fixed random order, because budgets and all-or-nothing waits look at all of them.
    """
    patterns = list(product((0, NEVER), repeat=ranks * unit * steps))
    random.Random(0).shuffle(patterns)
    units = _units(range(ranks * unit * steps), ranks, unit, steps)
    for first in range(0, len(patterns), ROWS):
        rows = patterns[first : first + ROWS]
        yield Scenario(arm=arm, units=units, appears=tuple(zip(*rows, strict=True)), lead=lead)


def sampled(arms: Sequence[str], count: int, seed: int) -> Iterator[Scenario]:
    """Random worlds of up to three ranks and four steps, arms in turn."""
    rng = random.Random(seed)
    for k in range(count):
        ranks = rng.choice([1, 2, 2, 3])
        unit, steps = (1, rng.choice([2, 3])) if ranks == 3 else (rng.choice([1, 2]), rng.choice([2, 3, 4]))
        yield _world(rng, arms[k % len(arms)], ranks=ranks, unit=unit, steps=steps, rows=rng.randint(1, ROWS))


def of_size(arm: str, count: int, seed: int, *, ranks: int, unit: int, steps: int, rows: int) -> Iterator[Scenario]:
    """Random worlds of one size."""
    rng = random.Random(seed)
    for _ in range(count):
        yield _world(rng, arm, ranks=ranks, unit=unit, steps=steps, rows=rows)


def only_read(*sizes: int, others: int = 0, arm: str = "paper-literal:tau=1") -> Scenario:
    """A world whose last step reads the rows of these gradients, without the last one, and is not known to write them:
    view 0 comes to them only after its only visit. View 1 writes them all, right before and once earlier.

    others: number of rows that only view 0 touches
    """
    most = len(sizes) - 1
    return Scenario(
        arm=arm,
        units=(((0, 1),), ((1, 2),), ((1, 2),), ((0, 2),)),
        appears=(
            (*[3] * most, NEVER, *[0] * others),
            (*[0] * (most + 1), *[NEVER] * others),
            (NEVER,) * (most + 1 + others),
        ),
        gradients=((*sizes, *[1] * others),) * 3,
    )


def _world(rng: random.Random, arm: str, *, ranks: int, unit: int, steps: int, rows: int) -> Scenario:
    batch = ranks * unit
    views = rng.choice([batch, batch + 2, batch * steps])
    order = [view for _ in range(steps) for view in rng.sample(range(views), batch)]
    return Scenario(
        arm=arm,
        units=_units(order, ranks, unit, steps),
        appears=_table(rng, _APPEARS, views, rows),
        gradients=_table(rng, _SIZES, views, rows),
        events=(*(rng.choice(_EVENTS) for _ in range(steps - 1)), Event.NONE),
        blocking=frozenset(step for step in range(steps - 1) if rng.random() < 0.15),
        early=rng.choice(_EARLY),
        lead=rng.choice(_LEAD),
        splittable=rng.random() < 0.8,
        selective=rng.random() < 0.3,
        fails=rng.random() < 0.5,
    )


def _units(order: Sequence[int], ranks: int, unit: int, steps: int) -> tuple[tuple[tuple[int, ...], ...], ...]:
    at = iter(order)
    return tuple(tuple(tuple(next(at) for _ in range(unit)) for _ in range(ranks)) for _ in range(steps))


def _table(rng: random.Random, values: Sequence[int], views: int, rows: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(rng.choice(values) for _ in range(rows)) for _ in range(views))
