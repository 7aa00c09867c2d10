"""One wrapping of the table in DistributedDataParallel; a new one follows every event that replaces the table.

Legend: N rows, C columns of a group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.parallel import DistributedDataParallel

from odin.comm.transport import Handle, Transport
from odin.ddp.hook import Launches, launch
from odin.ddp.inside import Inside
from odin.ddp.module import Leaves, ViewPass
from odin.keeper import Keeper
from odin.phases import Phase
from odin.segments import SegmentSpec
from odin.slot import GradientSlot
from odin.table import ParameterTable

# Below any leaf, so that each fills a bucket of its own; DDP's default of 25 MiB would put small scenes into one.
BUCKET_MIB = 1 / 2**20


class Buckets:
    """The table's two leaves inside DDP, whose buckets hold their gradients (`gradient_as_bucket_view`).

    specs: the two buckets of every waiting arm, colours first

    Also a slot laid out in the same way: each view's dense gradient on its way to autograd, and in the end the sums
    side by side, because the row kernel is faster on whole rows than group by group (60,000 rows: 8 ms, and 2 ms for
    this copy, against 18 ms).
    """

    def __init__(
        self, table: ParameterTable, specs: Sequence[SegmentSpec], transport: Transport, keeper: Keeper
    ) -> None:
        self._parameters, self._keeper = table.parameters, keeper
        self.slot = GradientSlot(len(table), table.layout)
        self.slot.partition(specs)
        self.inside = Inside(keeper)
        self._launches = Launches(transport, keeper, self.inside, self.slot.segments)
        leaves = Leaves(table)
        # Replicas start equal and are compared after every event, so DDP need not broadcast the table.
        self._ddp = DistributedDataParallel(
            leaves, init_sync=False, bucket_cap_mb=BUCKET_MIB, gradient_as_bucket_view=True
        )
        self._ddp.register_comm_hook(self._launches, launch)
        self._leaves = (leaves.geometry, leaves.colours)
        self._settle()

    def wraps(self, table: ParameterTable) -> bool:
        """Whether the leaves still alias the table's storage."""
        return self._parameters is table.parameters

    def clear(self) -> None:
        """Zero the buckets, i.e. the gradients of the leaves."""
        for leaf in self._leaves:
            _gradient(leaf).zero_()

    def train(self, view: ViewPass, *, exchange: bool) -> float:
        """Forward and backward of one view, added to the buckets; they are sent where `exchange`. The view's loss."""
        with self.inside.torch(), nullcontext() if exchange else self._ddp.no_sync():
            loss = self._ddp(view)
            loss.backward()
        return float(loss.detach())

    def dense(
        self, group: int, phase: Phase, rows: NDArray[np.int32], gradient: Callable[[], NDArray[np.float32]]
    ) -> torch.Tensor:
        """A view's gradient of a group (float32 [R, C] at `rows`, computed in `phase`) as float32 [N, C] for autograd,
        which adds it to the leaf's. Only zeroing and adding are DDP's; the phase is that of the other arms."""
        target = self._part(group)
        target.zero_()
        self.inside.copied(target.numel())
        with self.inside.ours(), self._keeper.phase(phase, rows=len(rows)):
            self.slot.add(group, rows, gradient())  # colour groups lie side by side in their bucket
        self.inside.copied(target.numel())
        return target.view(len(self._parameters), -1)

    def sent(self) -> list[tuple[str, Handle]]:
        """Name and handle of the two buckets that the last view sent, in link order."""
        return self._launches.take()

    def gather(self) -> None:
        """Copy the sums from the buckets into the slot."""
        with self.inside.torch():
            for group, leaf in enumerate(self._leaves):
                self._part(group).copy_(_gradient(leaf).view(-1))
            self.inside.copied(self.slot.tensor.numel())

    def _part(self, group: int) -> torch.Tensor:
        return self.slot.slice(self.slot.segments[1 - group])  # colours, group 1, come first

    def _settle(self) -> None:
        """Two backward passes of zeros, sent nowhere. DDP's first one has a single bucket; it then lays out the
        buckets anew, in the order in which gradients came (and rank 0 broadcasts that order)."""
        zeros = _Zeros(*(torch.zeros(leaf.shape) for leaf in self._leaves))
        self._ddp(zeros).backward()
        self._launches.forget()
        self._ddp(zeros).backward()
        self._launches.take()
        self._launches.sending = True


class _Zeros:
    """A view that touches nothing."""

    def __init__(self, geometry: torch.Tensor, colours: torch.Tensor) -> None:
        self._geometry, self._colours = geometry, colours

    def forward(self) -> float:
        return 0.0

    def colours(self) -> torch.Tensor:
        return self._colours

    def geometry(self) -> torch.Tensor:
        return self._geometry


def _gradient(leaf: torch.nn.Parameter) -> torch.Tensor:
    assert leaf.grad is not None
    return leaf.grad
