"""One step of mixed parallelism between its first observation and its publication.

Legend: P parts in which its rows travel, B views in unit order, T tasks, S and G columns of a projected row and its
gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from odin.comm.transport import Handle
from odin.memory import Holding, MemoryCategory
from odin.mixed.bands import Division
from odin.mixed.traffic import Inbox, Pick, Traffic
from odin.rows import Update
from odin.slot import Slot


@dataclass(kw_only=True)
class Flight:
    """What is known of a step so far.

    division:  who renders what
    observed:  part → this owner's rows of each view, [P][B]
    picks:     part → which of them each task needs, [P][T]
    announced, sizes: int64 [W, P·T + L], rows of every owner and costs that it tells, and the handle they come with
    under_way: observations that are not waited for yet
    returning: gradient of what this rank has received, float32 [rows, G]
    gradient, published: the same of what this owner has sent, and the handle it comes with
    update:    bound at first use
    moved:     rows (int32 ids) that the gradient moves; all of the shard where none has taken its zero step yet
    held_back: rows of each view that are observed only when the step before is published
    slot:      the gradient of the shard's rows, where it is gathered
    again:     the same step from published values, where it is audited; itself an `audit`
    images:    of its tasks, where it is audited
    """

    step: int
    division: Division
    picks: list[list[Pick]] = field(default_factory=list)
    observed: list[list[Any]] = field(default_factory=list)
    announced: torch.Tensor | None = None
    sizes: Handle | None = None
    under_way: list[tuple[str, Handle]] = field(default_factory=list)
    returning: torch.Tensor | None = None
    gradient: torch.Tensor | None = None
    published: Handle | None = None
    update: Update | None = None
    moved: NDArray[np.int32] | None = None
    held_back: list[NDArray[np.int32]] | None = None
    slot: Slot | None = None
    audit: bool = False
    again: Flight | None = None
    images: list[torch.Tensor] = field(default_factory=list)
    _traffic: Traffic | None = None
    _inbox: Inbox | None = None

    @property
    def traffic(self) -> Traffic:
        """Amounts; known when `sizes` has been waited for."""
        assert self._traffic is not None
        return self._traffic

    @property
    def inbox(self) -> Inbox:
        """What this rank receives."""
        assert self._inbox is not None
        return self._inbox

    def learn(self, traffic: Traffic, rank: int) -> None:
        """The amounts have come; `rank` is this one."""
        self._traffic, self._inbox = traffic, Inbox(traffic=traffic, rank=rank)

    def named(self, name: str) -> str:
        """A transfer of it on the timeline."""
        return f"audit {name}" if self.audit else name

    def holdings(self) -> Iterator[Holding]:
        """What the step keeps until it is published (`odin.memory`)."""
        for tensor in (self.returning, self.gradient):
            if tensor is not None:
                yield MemoryCategory.OTHER, tensor
        if self.again is not None and self.again.slot is not None:
            yield from self.again.slot.holdings()
        for part in self.observed:
            for one in part:
                yield MemoryCategory.ROW_LISTS, one.rows
                yield from one.holdings()
