"""Where projected rows and their gradients lie in the buffers that travel (D§6 Mixed parallel).

A step's rows travel in parts (`quality`: those clear of the step before, then those in conflict). Owner o sends to rank
r, for each of r's views in unit order, that view's rows in ascending id; r receives the owners' rows in rank order. The
gradients of all parts return together: by owner, then part, then view, each in the order in which it was sent.

Legend: W ranks, P parts, B views of a step in unit order, U views of a rank, S and G columns of a row and its gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from odin.mixed.recipe import Observed


def with_ids(observed: Sequence[Observed], first: int, columns: int) -> torch.Tensor:
    """The projected rows of some views one after the other, float32 [rows, S+1]; the last column holds the bits of the
    int32 global id. Only copies of it are taken on the way, so no bit changes."""
    out = torch.empty(sum(len(one.rows) for one in observed), columns + 1)
    start = 0
    for one in observed:
        stop = start + len(one.rows)
        out[start:stop, :columns] = one.projected
        out[start:stop, columns] = torch.from_numpy(one.rows + np.int32(first)).view(torch.float32)
        start = stop
    return out


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Amounts of one step. counts: int64 [P, W, B], rows of part p that owner o has for view b."""

    counts: NDArray[np.int64]
    units: int  # U

    def sizes(self, part: int) -> NDArray[np.int64]:
        """Rows of a part from owner i to rank j, int64 [W, W]."""
        owners = self.counts.shape[1]
        return self.counts[part].reshape(owners, -1, self.units).sum(axis=2)

    def returning(self) -> NDArray[np.int64]:
        """Gradient rows from rank i to owner j, int64 [W, W]."""
        sent = np.sum([self.sizes(part) for part in range(len(self.counts))], axis=0)
        return np.ascontiguousarray(sent.T)


@dataclass(kw_only=True)
class Inbox:
    """What one rank has received for its views of a step. parts: float32 [rows, S+1] each, by owner, then view."""

    traffic: Traffic
    rank: int
    parts: list[torch.Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        units, counts = self.traffic.units, self.traffic.counts
        self._own = counts[:, :, self.rank * units : (self.rank + 1) * units]  # [P, W, U]
        # In what was received a part is contiguous, in what returns an owner is.
        self._received = [_starts(part) for part in self._own]
        self._returned = _starts(self._own.transpose(1, 0, 2)).transpose(1, 0, 2)

    def view(self, position: int) -> tuple[torch.Tensor, NDArray[np.int64]]:
        """Projected rows of an own view in ascending global id, float32 [M, S], and where the gradient of each
        belongs in what returns, int64 [M]."""
        rows, places = [], []
        for part, received in enumerate(self.parts):
            for owner, count in enumerate(self._own[part, :, position]):
                start, back = self._received[part][owner, position], self._returned[part, owner, position]
                rows.append(received[start : start + count])
                places.append(np.arange(back, back + count))
        joined, place = torch.cat(rows), np.concatenate(places)
        if len(self.parts) > 1:
            order = np.argsort(joined[:, -1].contiguous().view(torch.int32).numpy(), kind="stable")
            joined, place = joined[torch.from_numpy(order)], place[order]
        return joined[:, :-1], place

    @property
    def returning(self) -> int:
        """Gradient rows that this rank returns."""
        return int(self._own.sum())


class Outbox:
    """Where an owner finds the gradients that have come back: by rank, then part, then that rank's views."""

    def __init__(self, traffic: Traffic, rank: int) -> None:
        parts, _, batch = traffic.counts.shape
        sent = traffic.counts[:, rank].reshape(parts, batch // traffic.units, traffic.units)  # [P, W, U]
        starts = _starts(sent.transpose(1, 0, 2)).transpose(1, 0, 2)
        self._starts, self._sent = starts.reshape(parts, batch), sent.reshape(parts, batch)

    def slice(self, part: int, view: int) -> slice:
        """The gradient rows of a view (position in the step) and part."""
        start = int(self._starts[part, view])
        return slice(start, start + int(self._sent[part, view]))


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Start of each run when runs of such lengths follow one another in C order; the same shape."""
    ends = counts.reshape(-1).cumsum()
    return (ends - counts.reshape(-1)).reshape(counts.shape)
