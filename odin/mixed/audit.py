"""The audit of reads that are not waited for, where primitives are sharded (D§6; `odin.audit` is the replicated one).

When all before a step is published, its views are observed, rendered and returned once more, as no other traffic of the
step needs it; when the step's own gradient has come back, every owner compares the two on its shard. Statistics, costs
and counters do not see the second rendering, and the gradient that is applied is the step's own.

Legend: n rows of this owner's shard, D columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from odin.audit import AuditRecord, agree, kind_sums
from odin.comm.transport import Transport
from odin.keeper import Keeper
from odin.phases import Phase
from odin.slot import Slot


class ShardAuditor:
    """Audits some steps. kinds: columns of each kind of parameter."""

    def __init__(self, steps: frozenset[int], kinds: Mapping[str, slice], transport: Transport, keeper: Keeper) -> None:
        self.steps, self.records = steps, list[AuditRecord]()
        self._kinds, self._transport, self._keeper = kinds, transport, keeper

    def compare(self, step: int, read: Slot, published: Slot, pixel: float) -> AuditRecord:
        """This owner's gradient of a step from what it read and from published values, and the largest change of a
        pixel in what this rank rendered; all ranks get the same record."""
        with self._keeper.phase(Phase.AUDIT, rows=read.row_count):
            sums = kind_sums(self._kinds, read.dense(), published.dense())
        record = agree(self._transport, self._keeper, step, list(self._kinds), sums, pixel)
        self.records.append(record)
        return record


def pixel_change(before: Sequence[torch.Tensor], after: Sequence[torch.Tensor]) -> float:
    """Largest difference of a pixel's channel between two renderings of the same tasks."""
    return max((float((a - b).abs().max()) for a, b in zip(before, after, strict=True)), default=0.0)
