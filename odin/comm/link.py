"""The link model: one formula for emulated (`shaped`) and virtual links (D§7).

A collective starts when its last rank has joined and the link is free; an all-reduce takes
2(W-1)·alpha + 2(W-1)/W · bytes/beta, an all-to-all or an all-gather half of that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from odin.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Link:
    """A link between ranks.

    name:  for records
    alpha: latency per message, seconds
    beta:  bytes per second; math.inf for a link without delay
    """

    name: str
    alpha: float = 0.0
    beta: float = math.inf

    def __post_init__(self) -> None:
        if self.beta <= 0 or self.alpha < 0:
            raise InputError(
                f"Link {self.name!r} has alpha={self.alpha} s and beta={self.beta} bytes/s; latency must be at "
                "least 0 and bandwidth above 0."
            )

    @property
    def shaped(self) -> bool:
        """Whether this link delays anything."""
        return self.alpha > 0 or math.isfinite(self.beta)

    def all_reduce_seconds(self, nbytes: int, ranks: int) -> float:
        """Time an all-reduce of `nbytes` occupies the link."""
        return 2 * (ranks - 1) * self.alpha + 2 * (ranks - 1) / ranks * nbytes / self.beta

    def all_to_all_seconds(self, nbytes: int, ranks: int) -> float:
        """Time an all-to-all occupies the link on which every rank holds `nbytes` and keeps 1/W of them."""
        return (ranks - 1) * self.alpha + (ranks - 1) / ranks * nbytes / self.beta

    def all_gather_seconds(self, nbytes: int, ranks: int) -> float:
        """Time an all-gather occupies the link after which every rank holds `nbytes`."""
        return (ranks - 1) * self.alpha + (ranks - 1) / ranks * nbytes / self.beta

    def stretched(self, s: float) -> Link:
        """The same link slowed down by `s` (padding stretches compute and link alike; D§7)."""
        return Link(name=self.name, alpha=self.alpha * s, beta=self.beta / s)


UNSHAPED = Link(name="none")


def link_for_exposure(name: str, share: float, step_seconds: float, nbytes: int, ranks: int) -> Link:
    """The link on which a one-bucket barrier spends `share` of its step in transfer (alpha = 0).

    step_seconds: compute of a step, mean over steps of the busiest rank
    nbytes:       payload of a step

    transfer / (compute + transfer) = share, so transfer = compute · share / (1 - share), and beta follows.
    """
    if not 0 < share < 1:
        raise InputError(f"Exposed share {share} of link {name!r} must lie between 0 and 1.")
    if ranks < 2:
        return Link(name=name)
    transfer = step_seconds * share / (1 - share)
    return Link(name=name, beta=2 * (ranks - 1) / ranks * nbytes / transfer)
