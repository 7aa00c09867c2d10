"""How owners talk to each other at structural events: collect small facts, move rows to new owners.

Legend: W ranks, n rows of an owner (each its own number), C columns.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from odin.comm.transport import ExchangeTransport
from odin.keeper import Keeper

NAME = "owners"  # of these waits on the timeline


class Owners:
    """All owners of a table, as one of them sees them. Every rank makes the same calls in the same order; each is on
    the link and waited for at once."""

    def __init__(self, transport: ExchangeTransport, keeper: Keeper) -> None:
        self.rank, self.ranks = transport.rank, transport.ranks
        self._transport, self._keeper = transport, keeper

    def gather(self, part: torch.Tensor) -> torch.Tensor:
        """Every owner's `part` (same shape and type), [W, *shape]."""
        part = part.contiguous()
        gathered = torch.empty((self.ranks, *part.shape), dtype=part.dtype)
        self._keeper.wait(self._transport.all_gather(part, gathered, self._keeper.join()), NAME)
        return gathered

    def counts(self, mine: int) -> NDArray[np.int64]:
        """A number of every owner, int64 [W]."""
        found: NDArray[np.int64] = self.gather(torch.tensor([mine], dtype=torch.int64)).numpy()[:, 0]
        return found

    def gather_rows(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows [n, C] of all owners in rank order, [Σ n, C]."""
        counts = self.counts(len(rows))
        padded = torch.zeros((int(counts.max()), *rows.shape[1:]), dtype=rows.dtype)
        padded[: len(rows)] = rows
        parts = self.gather(padded)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    def exchange(self, rows: torch.Tensor, to: NDArray[np.int64]) -> torch.Tensor:
        """Rows [n, C], sorted by their new owner, of which rank j gets to[j] (int64 [W]); what comes here, in rank
        order."""
        sizes = self.gather(torch.from_numpy(to)).numpy()
        received = torch.empty((int(sizes[:, self.rank].sum()), *rows.shape[1:]), dtype=rows.dtype)
        handle = self._transport.all_to_all(rows.contiguous(), received, sizes, self._keeper.join())
        self._keeper.wait(handle, NAME)
        return received
