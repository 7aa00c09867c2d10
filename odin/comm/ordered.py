"""Sums over ranks in rank order, however a payload is cut into segments (D§5 Exact arms, D§6 Segments).

A ring adds the terms of an element in an order that depends on where in the payload the element lies, so from three
ranks on, cutting a gradient differently changes its last bits. Here rank r owns the r-th shard of the payload:
all-to-all of the shards, ((g₀ + g₁) + g₂) + … on the owner, all-gather of the sums. The order is the element's own,
and the bytes are those of a ring.

Legend: W ranks, n elements of a payload, shards of ⌈n/W⌉ elements.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from queue import SimpleQueue

import torch
import torch.distributed as dist


class _Scratch:
    """One buffer for payloads of any size and type; it grows to the largest of them."""

    def __init__(self) -> None:
        self._bytes = torch.empty(0, dtype=torch.uint8)

    def of(self, dtype: torch.dtype, count: int) -> torch.Tensor:
        """The first `count` elements as `dtype`, with whatever was there before."""
        nbytes = count * dtype.itemsize
        if nbytes > self._bytes.numel():
            self._bytes = torch.empty(nbytes, dtype=torch.uint8)
        return self._bytes[:nbytes].view(dtype)


class OrderedReducer:
    """Sums tensors one after the other, in the order of their launch, on a thread of its own.

    group: nothing else may use it until `close`

    Holds two buffers of the largest payload, the second only if some payload is not divisible by W.
    After a sum has failed, this rank may be ahead of the others or behind; all later ones fail with the same error.
    """

    def __init__(self, group: dist.ProcessGroupGloo) -> None:
        self._group = group
        self._ranks = group.size()
        self._padded, self._received = _Scratch(), _Scratch()
        self._launched: SimpleQueue[tuple[torch.Tensor, Future[None]] | None] = SimpleQueue()
        self._last: Future[None] | None = None
        self._thread = threading.Thread(target=self._work, name="ordered-sums", daemon=True)
        self._thread.start()

    def launch(self, tensor: torch.Tensor) -> Future[None]:
        """Start summing a contiguous tensor, not empty, in place; leave it alone until the future is done.

        Raises RuntimeError where the tensor is not contiguous; what goes wrong later is raised by the future.
        """
        launched = tensor.view(-1), Future[None]()  # a view, or an error: a copy would not be summed in place
        self._launched.put(launched)
        self._last = launched[1]
        return self._last

    def close(self) -> None:
        """End the thread. With a sum still under way it is left alone: a rank that is lost may never join it."""
        self._launched.put(None)
        if self._last is None or self._last.done():
            self._thread.join()

    def _work(self) -> None:
        failure: Exception | None = None
        while (launched := self._launched.get()) is not None:
            flat, future = launched
            if failure is None:
                try:
                    self._sum(flat)
                except Exception as error:
                    failure = error
            if failure is None:
                future.set_result(None)
            else:
                future.set_exception(failure)

    def _sum(self, flat: torch.Tensor) -> None:
        """Sum a flat tensor [n] over ranks in place. Equal shards, because gloo's collectives want them."""
        count, shard = flat.numel(), -(-flat.numel() // self._ranks)
        whole = shard * self._ranks
        payload = flat
        if whole > count:
            payload = self._padded.of(flat.dtype, whole)
            payload[:count].copy_(flat)
            payload[count:].zero_()
        terms = self._received.of(flat.dtype, whole)
        self._group.alltoall_base(terms, payload, [], []).wait()  # type: ignore[attr-defined]
        total = terms[:shard]
        for rank in range(1, self._ranks):
            total += terms[rank * shard : (rank + 1) * shard]
        self._group._allgather_base(payload, total).wait()  # type: ignore[attr-defined]
        if payload is not flat:
            flat.copy_(payload[:count])
