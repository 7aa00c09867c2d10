"""How small delayed reads really are: the measured side of "small, low impact" (Review 1, D§6 gate).

For each window, over the rows that were read one update late: the norm that each rank saw, the norm of the reduced
gradient, and the update that was then applied. A row is counted once per rank in the first, once in the others. Norms
are in units of the step's active mean, updates in learning rates (root mean square over columns), all in octaves.

Legend: R delayed rows, O octaves, P windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from odin.comm.transport import Transport

LOWEST, HIGHEST = -12, 6  # octaves; what is smaller or larger counts in the first or last bin
OCTAVES = HIGHEST - LOWEST


@dataclass(frozen=True, kw_only=True)
class Delays:
    """One window after `step`.

    mean:    active mean of the step's reduced gradient
    local, reduced, update: int64 [O], rows per octave; bin k holds [2^(LOWEST+k), 2^(LOWEST+k+1))
    without: rows without a local gradient, without a reduced one, and without an update; not in the bins
    """

    step: int
    mean: float
    local: NDArray[np.int64]
    reduced: NDArray[np.int64]
    update: NDArray[np.int64]
    without: tuple[int, int, int]


def octaves(values: NDArray[np.floating]) -> tuple[NDArray[np.int64], int]:
    """Counts of positive values per octave, int64 [O], and how many are not positive."""
    positive = values[values > 0]
    bins = np.clip(np.floor(np.log2(positive)).astype(np.int64) - LOWEST, 0, OCTAVES - 1)
    return np.bincount(bins, minlength=OCTAVES).astype(np.int64), len(values) - len(positive)


def delays(
    step: int,
    *,
    mean: float,
    local: NDArray[np.float32],
    reduced: NDArray[np.float32],
    moved: NDArray[np.float32],
    lr: NDArray[np.float64],
) -> Delays:
    """The account of one window. local, reduced: [R] norms; moved: [R, D] change of the parameters; lr: [D]."""
    scale = mean if mean > 0 else 1.0
    in_rates = np.sqrt(np.mean((moved / lr) ** 2, axis=1))
    counted = [octaves(values) for values in (local / scale, reduced / scale, in_rates)]
    return Delays(
        step=step,
        mean=mean,
        local=counted[0][0],
        reduced=counted[1][0],
        update=counted[2][0],
        without=(counted[0][1], counted[1][1], counted[2][1]),
    )


def sum_over_ranks(windows: Sequence[Delays], transport: Transport) -> list[Delays]:
    """The accounts of a run with local norms counted on all ranks. Every rank has accounts of the same windows, and
    calls this at the end of its run: it waits for the others."""
    if not windows:
        return []
    counts = np.array([[*w.local, w.without[0]] for w in windows], np.int64)  # [P, O + 1]
    summed = torch.from_numpy(counts)
    transport.reduce_now(summed)
    return [
        replace(w, local=mine[:-1], without=(int(mine[-1]), *w.without[1:]))
        for w, mine in zip(windows, summed.numpy(), strict=True)
    ]
