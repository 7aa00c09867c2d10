"""DDP's communication hook: sends a bucket through Transport and tells DDP that it is done.

DDP would wait for the sum at the end of backward. Its future is complete at once instead, and the wait is taken by
the keeper after backward, where every arm takes it. Nobody reads the bucket until then.
"""

# No `from __future__ import annotations` here: DDP compares the hook's annotations with types, not with their names.

from collections.abc import Sequence

import torch
import torch.distributed as dist

from odin.comm.transport import Handle, Transport
from odin.ddp.inside import Inside
from odin.errors import RunError
from odin.keeper import Keeper
from odin.slot import Segment


class Launches:
    """The hook's state: buckets of the current backward that are under way, in link order.

    It holds no reference to the module: DDP keeps it in C++, where a cycle is never collected, and every structural
    event would leak a set of buckets.

    wanted:  what the buckets have to be, colours first
    sending: False while DDP finds out the order of its leaves; nothing is sent then
    """

    def __init__(self, transport: Transport, keeper: Keeper, inside: Inside, wanted: Sequence[Segment]) -> None:
        self.sending = False
        self._transport, self._keeper, self._inside, self._wanted = transport, keeper, inside, wanted
        self._sizes: list[int] = []
        self._handles: list[Handle] = []

    def bucket(self, buffer: torch.Tensor) -> None:
        """Send a bucket that is ready."""
        self._sizes.append(buffer.numel())
        if self.sending:
            with self._inside.ours():
                self._handles.append(self._transport.all_reduce(buffer, self._keeper.join()))

    def forget(self) -> None:
        """Buckets of the first backward after wrapping are what DDP chose without knowing any order."""
        self._sizes.clear()

    def take(self) -> list[tuple[str, Handle]]:
        """Name and handle of every bucket since the last call, in link order (no handles while nothing is sent).

        Raises RunError when DDP did not make one bucket of each leaf, colours first.
        """
        wanted = [segment.stop - segment.start for segment in self._wanted]
        if self._sizes != wanted:
            raise RunError(
                f"DistributedDataParallel of torch {torch.__version__} made buckets of {self._sizes} elements; "
                f"expected {wanted}, the colours and then the geometry. The arm ddp would not be what it says, so the "
                "run was stopped; leave ddp out of study.arms, or use a version of torch that lays out buckets so."
            )
        taken = [(s.name, handle) for s, handle in zip(self._wanted, self._handles, strict=False)]
        self._sizes, self._handles = [], []
        return taken


def launch(state: Launches, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The hook. It returns the bucket's sum, not its mean: the row kernel divides by the batch, as in every arm."""
    state.bucket(bucket.buffer())
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done
