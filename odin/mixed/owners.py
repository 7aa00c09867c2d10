"""How owners talk to each other at structural events: collect small facts, move rows to new owners.

Legend: W ranks, n rows of an owner (each its own number), C columns.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from odin.comm.transport import ExchangeTransport
from odin.device.upload import HOST_DEVICE
from odin.keeper import Keeper

NAME = "owners"  # of these waits on the timeline


class Owners:
    """All owners of a table, as one of them sees them. Every rank makes the same calls in the same order; each is on
    the link and waited for at once. What is collected lies where the own part does.

    device: what the transport moves lies there
    """

    def __init__(self, transport: ExchangeTransport, keeper: Keeper, device: torch.device = HOST_DEVICE) -> None:
        self.rank, self.ranks, self._device = transport.rank, transport.ranks, device
        self._transport, self._keeper = transport, keeper

    def gather(self, part: torch.Tensor) -> torch.Tensor:
        """Every owner's `part` (same shape and type), [W, *shape]."""
        own = part.to(self._device).contiguous()
        gathered = torch.empty((self.ranks, *own.shape), dtype=own.dtype, device=self._device)
        self._keeper.wait(self._transport.all_gather(own, gathered, self._keeper.join()), NAME)
        return self._landed(gathered, part.device)

    def counts(self, mine: int) -> NDArray[np.int64]:
        """A number of every owner, int64 [W]."""
        found: NDArray[np.int64] = self.gather(torch.tensor([mine], dtype=torch.int64)).numpy()[:, 0]
        return found

    def gather_rows(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows [n, C] of all owners in rank order, [Σ n, C]."""
        counts = self.counts(len(rows))
        padded = torch.zeros((int(counts.max()), *rows.shape[1:]), dtype=rows.dtype, device=rows.device)
        padded[: len(rows)] = rows
        parts = self.gather(padded)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    def exchange(self, rows: torch.Tensor, to: NDArray[np.int64]) -> torch.Tensor:
        """Rows [n, C], sorted by their new owner, of which rank j gets to[j] (int64 [W]); what comes here, in rank
        order."""
        sizes = self.gather(torch.from_numpy(to)).numpy()
        own, count = rows.to(self._device).contiguous(), int(sizes[:, self.rank].sum())
        received = torch.empty((count, *own.shape[1:]), dtype=own.dtype, device=self._device)
        self._keeper.wait(self._transport.all_to_all(own, received, sizes, self._keeper.join()), NAME)
        return self._landed(received, rows.device)

    def _landed(self, moved: torch.Tensor, place: torch.device) -> torch.Tensor:
        """What a collective has brought, at `place`; not what one that was given up has left in its buffer."""
        there = moved.to(place)
        self._transport.check()
        return there
