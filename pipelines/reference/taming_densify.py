"""Densification to a budget by scores (TamingGS): how many primitives, and which ones.

Legend: N primitives before, N' after.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from odin.errors import InputError
from pipelines.reference.densify import Densified, alive_rows, grow, small_rows
from pipelines.reference.settings import Settings

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

_PRUNED_SHARE = 0.5
_SCORE_FLOOR = 1e-6


def final_budget(mode: str, amount: float, start: int) -> int:
    """Primitives to end with: `amount` times the initial number, or `amount` itself. Raises InputError."""
    budget = int(start * amount) if mode == "multiplier" else int(amount)
    if budget < 1:
        raise InputError(
            f"pipeline.primitive_budget is {amount:g} ({mode}), which leaves {budget} of {start} primitives. Give a "
            "factor on the initial number (budget_mode=multiplier) or a number of primitives (final_count)."
        )
    return budget


def budget_at(event: int, events: int, start: int, budget: int) -> int:
    """Primitives allowed after the `event`-th (from 1) of `events` densifications: a parabola from `start`, steep at
    first and flat at `budget` (eq. 2 of TamingGS). The last event may use all of it; upstream's stops one of its 145
    intervals short of it."""
    x = event / events
    return int(start + (budget - start) * (2.0 * x - x * x))


def sample(weights: Floats, count: int, rng: np.random.Generator) -> Ids:
    """`count` different indices, drawn one after the other in proportion to their weights; ascending.

    The distribution of torch.multinomial without replacement, by exponential races (Efraimidis and Spirakis 2006), for
    any number of weights (torch takes at most 2²⁴) and any count: indices without weight come after all others, and
    never more are returned than there are.
    """
    race = rng.standard_exponential(len(weights))
    weighted = weights > 0
    race[weighted] /= weights[weighted]
    order = np.lexsort((race, ~weighted))
    return np.sort(order[: max(0, min(count, len(weights)))])


def densify_to_budget(
    parameters: NDArray[np.float32],
    mean_norm: Floats,
    scores: Floats,
    settings: Settings,
    extent: float,
    rng: np.random.Generator,
    *,
    budget: int,
    prune: bool,
    prune_large: bool,
) -> Densified:
    """Clone and split as many rows as the budget allows, the likelier the higher their score, then prune some of the
    rows that 3DGS would prune.

    mean_norm, scores: float64 [N]; prune: half as many rows as 3DGS would prune are drawn by 1 / score, and those of
    them that it would prune go (never in the last events, so that runs end at their budget)
    """
    hot = mean_norm >= settings.densify_grad_threshold
    small = small_rows(parameters, settings, extent)
    clones, splits = np.flatnonzero(hot & small), np.flatnonzero(hot & ~small)
    room = max(0, min(budget - len(parameters), len(clones) + len(splits)))
    cloned = room * len(clones) // max(1, len(clones) + len(splits))
    clone = clones[sample(scores[clones], cloned, rng)]
    split = splits[sample(scores[splits], room - cloned, rng)]
    grown = grow(parameters, clone, split, rng)
    if not prune:
        return grown
    faint = ~alive_rows(grown.parameters, settings, extent, prune_large)
    # New rows have no score and are not drawn, as upstream (where splits put scores out of step with rows).
    old = grown.source[grown.source >= 0]
    drawn = sample(1.0 / (_SCORE_FLOOR + scores[old]), int(_PRUNED_SHARE * faint.sum()), rng)
    alive = np.ones(len(faint), np.bool_)
    alive[drawn] = ~faint[drawn]
    return grown.only(alive)
