"""Where projected rows and their gradients lie in the buffers that travel (D§6 Mixed parallel).

A step's rows travel in parts (`quality`: those clear of the step before, then those in conflict). Owner o sends to rank
r, for each of r's tasks (`odin.mixed.bands`) in order, the rows that it needs in ascending id; r receives the owners'
rows in rank order. The gradients of all parts return together: by owner, then part, then task, each in the order in
which it was sent.

Legend: W ranks, P parts, T tasks of a step by rank, U tasks of a rank, S and G columns of a row and its gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from odin.device.upload import HOST_DEVICE, as_index, to_device
from odin.mixed.recipe import Observed

Pick = NDArray[np.int64] | None  # positions among a view's rows of those that a task needs; None for all


def with_ids(
    pieces: Sequence[tuple[Observed, Pick]],
    ids: NDArray[np.int32],
    columns: int,
    device: torch.device = HOST_DEVICE,
) -> torch.Tensor:
    """The projected rows of some views, or of picks of them, one after the other, float32 [rows, S+1]; the last column
    holds the bits of the int32 global id (`ids` [n]: of the shard's rows). Only copies of it are taken on the way, so
    no bit changes."""
    out = torch.empty(sum(picked(*piece) for piece in pieces), columns + 1, device=device)
    start = 0
    for one, pick in pieces:
        stop = start + picked(one, pick)
        out[start:stop, :columns] = one.projected if pick is None else one.projected[as_index(pick, device)]
        rows = one.rows if pick is None else one.rows[pick]
        out[start:stop, columns] = to_device(ids[rows], device, torch.int32).view(torch.float32)
        start = stop
    return out


def picked(observed: Observed, pick: Pick) -> int:
    """How many rows a piece has."""
    return len(observed.rows) if pick is None else len(pick)


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Amounts of one step.

    counts: int64 [P, W, T], rows of part p that owner o has for task t
    starts: int64 [W + 1], first task of each rank (`Division.starts`)
    """

    counts: NDArray[np.int64]
    starts: NDArray[np.int64]

    def sizes(self, part: int) -> NDArray[np.int64]:
        """Rows of a part from owner i to rank j, int64 [W, W]."""
        before = np.pad(self.counts[part].cumsum(axis=1), ((0, 0), (1, 0)))
        return np.diff(before[:, self.starts], axis=1)

    def returning(self) -> NDArray[np.int64]:
        """Gradient rows from rank i to owner j, int64 [W, W]."""
        sent = np.sum([self.sizes(part) for part in range(len(self.counts))], axis=0)
        return np.ascontiguousarray(sent.T)


@dataclass(kw_only=True)
class Inbox:
    """What one rank has received for its tasks of a step. parts: float32 [rows, S+1] each, by owner, then task."""

    traffic: Traffic
    rank: int
    parts: list[torch.Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        first, last = self.traffic.starts[self.rank : self.rank + 2]
        self._own = self.traffic.counts[:, :, first:last]  # [P, W, U]
        # In what was received a part is contiguous, in what returns an owner is.
        self._received = [_starts(part) for part in self._own]
        self._returned = _starts(self._own.transpose(1, 0, 2)).transpose(1, 0, 2)

    def task(self, position: int) -> tuple[torch.Tensor, NDArray[np.int64]]:
        """Projected rows of an own task in ascending global id, float32 [M, S], and where the gradient of each
        belongs in what returns, int64 [M]."""
        joined, place = self._joined(position)
        ids = joined[:, -1].contiguous().view(torch.int32).numpy()
        if (ids[1:] < ids[:-1]).any():  # several parts, or owners whose rows are not adjacent
            order = np.argsort(ids, kind="stable")
            joined, place = joined[torch.from_numpy(order)], place[order]
        return joined[:, :-1], place

    def task_on(self, position: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """The same on a device, places as an index there; the host does not look at ids, so they are always sorted."""
        joined, place = self._joined(position)
        order = torch.argsort(joined[:, -1].contiguous().view(torch.int32), stable=True)
        return joined[order, :-1], to_device(place, device, torch.int64)[order]

    def _joined(self, position: int) -> tuple[torch.Tensor, NDArray[np.int64]]:
        """Rows of an own task by part, then owner, with their ids, and their places."""
        rows, places = [], []
        for part, received in enumerate(self.parts):
            for owner, count in enumerate(self._own[part, :, position]):
                start, back = self._received[part][owner, position], self._returned[part, owner, position]
                rows.append(received[start : start + count])
                places.append(np.arange(back, back + count))
        return torch.cat(rows), np.concatenate(places)

    @property
    def returning(self) -> int:
        """Gradient rows that this rank returns."""
        return int(self._own.sum())


class Outbox:
    """Where an owner finds the gradients that have come back: by rank, then part, then that rank's tasks."""

    def __init__(self, traffic: Traffic, rank: int) -> None:
        sent = traffic.counts[:, rank]  # [P, T]
        by_rank = np.split(sent, traffic.starts[1:-1], axis=1)
        ends = np.concatenate([one.reshape(-1) for one in by_rank]).cumsum()
        split = np.split(ends, np.cumsum([one.size for one in by_rank])[:-1])
        joined = [one.reshape(part.shape) for one, part in zip(split, by_rank, strict=True)]
        self._ends, self._sent = np.concatenate(joined, axis=1), sent

    def slice(self, part: int, task: int) -> slice:
        """The gradient rows of a task (number in the step) and part."""
        stop = int(self._ends[part, task])
        return slice(stop - int(self._sent[part, task]), stop)


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Start of each run when runs of such lengths follow one another in C order; the same shape."""
    ends = counts.reshape(-1).cumsum()
    return (ends - counts.reshape(-1)).reshape(counts.shape)
