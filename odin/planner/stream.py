"""The workload: a continuous stream of epochs, each a permutation of the training views (D§4).

Epochs follow each other without a gap, so no view is dropped or repeated to complete a step. A step that
lies across the boundary of two epochs might name a view twice; the later epoch then trades places.
Legend: V training views, S steps, W ranks, U views per unit, B = W·U.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from odin.errors import InputError


def seeded(seed: int, *key: int) -> np.random.Generator:
    """Generator for (seed, key…), independent of every other key.

    Raises InputError for a negative seed.
    """
    if seed < 0:
        raise InputError(f"The seed is {seed}; use 0 or a positive integer.")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def epoch_order(train_count: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """Random permutation of the views that epoch `epoch` starts from, int64 [V]."""
    return seeded(seed, epoch).permutation(train_count)


def check_batch(train_count: int, ranks: int, views_per_unit: int, steps: int) -> None:
    """Raise InputError unless every step can be filled with different views."""
    if min(ranks, views_per_unit, steps) < 1:
        raise InputError(f"ranks={ranks}, views_per_unit={views_per_unit}, steps={steps}: all three start at 1.")
    batch = ranks * views_per_unit
    if batch > train_count:
        raise InputError(
            f"A step needs {batch} different views ({ranks} ranks × {views_per_unit} per unit), but there "
            f"are {train_count} training views. Use fewer ranks or views per unit."
        )


def crosses_epoch(train_count: int, batch: int, steps: int) -> NDArray[np.bool_]:
    """Which steps hold the end of one epoch and the start of the next, bool [S]."""
    first = np.arange(steps, dtype=np.int64) * batch
    return first // train_count != (first + batch - 1) // train_count


def random_units(train_count: int, ranks: int, views_per_unit: int, steps: int, seed: int) -> NDArray[np.int32]:
    """Random order: the stream of epochs cut into steps, int32 [S, W, U].

    Read in unit order it is the concatenation of permutations, so after any number of images the visits
    of two views differ by at most one.

    Raises InputError if B > V or a count is out of range.
    """
    check_batch(train_count, ranks, views_per_unit, steps)
    batch = ranks * views_per_unit
    stream = np.empty(0, np.int64)
    parts = []
    for epoch in range(-(-steps * batch // train_count)):
        tail = stream[len(stream) - epoch * train_count % batch :]
        stream = _without_clash(epoch_order(train_count, seed, epoch), tail, batch, seeded(seed, epoch, 1))
        parts.append(stream)
    flat = np.concatenate(parts)[: steps * batch]
    return flat.astype(np.int32).reshape(steps, ranks, views_per_unit)


def _without_clash(
    order: NDArray[np.int64], tail: NDArray[np.int64], batch: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """The epoch `order` [V] such that the step it shares with the last epoch's `tail` has no view twice.

    A clashing view trades places with a random later one that does not clash. There are enough of those:
    V ≥ B leaves at least as many as there are clashes.
    """
    if not len(tail):
        return order
    head = batch - len(tail)
    clash = np.flatnonzero(np.isin(order[:head], tail))
    free = head + np.flatnonzero(~np.isin(order[head:], tail))
    other = rng.choice(free, size=len(clash), replace=False)
    order = order.copy()
    order[clash], order[other] = order[other], order[clash]
    return order
