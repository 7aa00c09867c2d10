"""The link model: one formula for emulated (`shaped`) and virtual links (D§7).

A collective starts when its last rank has joined and the link is free; an all-reduce takes
2(W-1)·alpha + 2(W-1)/W · bytes/beta, an all-to-all or an all-gather half of that. Where ranks exchange unequal amounts,
the one that sends or receives most decides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

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

    def all_reduce_rate(self, ranks: int) -> float:
        """Payload bytes per second of a long all-reduce over at least two ranks."""
        return self.beta * ranks / (2 * (ranks - 1))

    def all_to_all_seconds(self, nbytes: int, ranks: int) -> float:
        """Time an all-to-all occupies the link on which every rank holds `nbytes` and keeps 1/W of them."""
        return (ranks - 1) * self.alpha + (ranks - 1) / ranks * nbytes / self.beta

    def all_gather_seconds(self, nbytes: int, ranks: int) -> float:
        """Time an all-gather occupies the link after which every rank holds `nbytes`."""
        return (ranks - 1) * self.alpha + (ranks - 1) / ranks * nbytes / self.beta

    def exchange_seconds(self, nbytes: NDArray[np.int64]) -> float:
        """Time an all-to-all of unequal parts occupies the link. nbytes: int64 [W, W], from rank i to rank j; what a
        rank keeps costs nothing. Equal parts cost what `all_to_all_seconds` says."""
        return (len(nbytes) - 1) * self.alpha + _busiest(nbytes) / self.beta

    def stretched(self, s: float) -> Link:
        """The same link slowed down by `s` (padding stretches compute and link alike; D§7)."""
        return Link(name=self.name, alpha=self.alpha * s, beta=self.beta / s)

    def carrying(self, factor: float) -> Link:
        """The same link where every byte stands for `factor` of them (a small scene for a large one; D§7)."""
        return replace(self, beta=self.beta / factor)


@dataclass(frozen=True, kw_only=True)
class ClusterLink(Link):
    """A link of several nodes: `alpha` and `beta` inside a node, the others between nodes (D§7).

    Hierarchical: reduced inside every node, between nodes, then gathered inside every node; all bytes of a node pass
    its one network interface. With all ranks on one node it is the plain link. Ranks fill nodes in order.

    per_node:     GPUs of a node
    across_alpha: latency of a message between nodes, seconds
    across_beta:  bytes per second between nodes, of a whole node
    """

    per_node: int
    across_alpha: float
    across_beta: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.per_node < 1 or self.across_alpha < 0 or self.across_beta <= 0:
            raise InputError(
                f"Link {self.name!r} has {self.per_node} GPUs per node, across_alpha={self.across_alpha} s and "
                f"across_beta={self.across_beta} bytes/s; a node has at least one GPU, latency is at least 0 and "
                "bandwidth above 0."
            )

    def all_reduce_seconds(self, nbytes: int, ranks: int) -> float:
        """Inside the node, then between nodes, each as a ring."""
        inside, nodes = self._split(ranks)
        return super().all_reduce_seconds(nbytes, inside) + self._across.all_reduce_seconds(nbytes, nodes)

    def all_reduce_rate(self, ranks: int) -> float:
        """See Link."""
        inside, nodes = self._split(ranks)
        seconds = 1.0 / super().all_reduce_rate(inside) if inside > 1 else 0.0
        seconds += 1.0 / self._across.all_reduce_rate(nodes) if nodes > 1 else 0.0
        return 1.0 / seconds

    def all_to_all_seconds(self, nbytes: int, ranks: int) -> float:
        """A node sends what its GPUs hold for others through one interface."""
        inside, nodes = self._split(ranks)
        between = self._across.all_to_all_seconds(nbytes * inside, nodes)
        return super().all_to_all_seconds(nbytes, inside) + between

    def all_gather_seconds(self, nbytes: int, ranks: int) -> float:
        """Between nodes, then inside the node."""
        inside, nodes = self._split(ranks)
        return super().all_gather_seconds(nbytes, inside) + self._across.all_gather_seconds(nbytes, nodes)

    def exchange_seconds(self, nbytes: NDArray[np.int64]) -> float:
        """Every rank first hands what it has for a place in other nodes to the rank at that place in its own node, then
        nodes exchange through their interfaces."""
        ranks = len(nbytes)
        inside, nodes = self._split(ranks)
        place, node = np.arange(ranks) % self.per_node, np.arange(ranks) // self.per_node
        within = _summed(nbytes, place, inside)  # [W, places]
        handed = [_busiest(within[node == n]) for n in range(nodes)]
        between = _summed(_summed(nbytes, node, nodes).T, node, nodes).T
        seconds = (inside - 1) * self.alpha + max(handed) / self.beta
        return float(seconds + self._across.exchange_seconds(between))

    def stretched(self, s: float) -> ClusterLink:
        """See Link."""
        alpha, beta = self.across_alpha * s, self.across_beta / s
        return replace(self, alpha=self.alpha * s, beta=self.beta / s, across_alpha=alpha, across_beta=beta)

    def carrying(self, factor: float) -> ClusterLink:
        """See Link."""
        return replace(self, beta=self.beta / factor, across_beta=self.across_beta / factor)

    @property
    def _across(self) -> Link:
        return Link(name=self.name, alpha=self.across_alpha, beta=self.across_beta)

    def _split(self, ranks: int) -> tuple[int, int]:
        """Ranks of the fullest node, and nodes."""
        return min(ranks, self.per_node), -(-ranks // self.per_node)


UNSHAPED = Link(name="none")


def _busiest(nbytes: NDArray[np.int64]) -> int:
    """The most that anyone sends or receives, of int64 [A, B] from i to j where i = j keeps its part."""
    moved = nbytes.copy()
    np.fill_diagonal(moved, 0)
    return int(max(moved.sum(axis=1).max(), moved.sum(axis=0).max()))


def _summed(values: NDArray[np.int64], group: NDArray[np.int64], groups: int) -> NDArray[np.int64]:
    """Columns of int64 [A, W] added up by their group, int64 [A, groups]."""
    return np.stack([values[:, group == g].sum(axis=1) for g in range(groups)], axis=1)


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
