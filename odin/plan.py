"""The plan: an immutable schedule of task units and overlap windows (§4.1–4.2).

Legend: S steps, W ranks, U views per task unit (B_gpu), B = W·U views per step.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from enum import IntFlag
from typing import Final

import numpy as np
from numpy.typing import NDArray

from odin.errors import InputError

PLAN_VERSION: Final = 1


class Blocking(IntFlag):
    """Why SAS keeps a window blocking; NONE marks a candidate."""

    NONE = 0
    STRUCTURAL = 1  # a structural event falls on the window
    MEMORY = 2  # its live state exceeds the memory budget
    NO_GAIN = 4  # the phase profile predicts no gain
    COUPLING = 8  # sas=paper: coupling above the limit
    CHECKPOINT = 16  # a checkpoint is written here, at flushed state


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Views of every task unit and the state of every window, fixed before training starts.

    units:    int32 [S, W, U], training-view index (0…train_count-1) of each rank's j-th view
    region:   int32 [S], LP region a step was drawn from; -1 where the order has no regions
    mixed:    bool [S], the step was filled from a second region or the next epoch
    blocking: int32 [S-1] of `Blocking`; entry s is the window between steps s and s+1
    train_count: number of training views
    provenance: how the plan was made (order, K, seed, fallbacks), for the record

    Raises InputError if a step names a view twice or a view that does not exist.
    """

    units: NDArray[np.int32]
    region: NDArray[np.int32]
    mixed: NDArray[np.bool_]
    blocking: NDArray[np.int32]
    train_count: int
    provenance: dict[str, str | int | float] = field(default_factory=dict)
    version: int = PLAN_VERSION

    def __post_init__(self) -> None:
        steps = len(self.units)
        if steps == 0:
            raise InputError("A plan has at least one step.")
        if self.units.ndim != 3 or len(self.region) != steps or len(self.mixed) != steps:
            raise InputError("A plan needs units [S, W, U] and one region and one mixed flag per step.")
        if len(self.blocking) != steps - 1:
            raise InputError(f"A plan of {steps} steps has {steps - 1} windows, not {len(self.blocking)}.")
        flat = np.sort(self.units.reshape(steps, -1), axis=1)
        if flat.size and (flat.min() < 0 or flat.max() >= self.train_count):
            raise InputError(f"A plan names a view outside 0…{self.train_count - 1}.")
        if np.any(flat[:, 1:] == flat[:, :-1]):
            raise InputError("A plan trains a view twice in one step.")

    @property
    def steps(self) -> int:
        """S."""
        return int(self.units.shape[0])

    @property
    def ranks(self) -> int:
        """W."""
        return int(self.units.shape[1])

    @property
    def views_per_unit(self) -> int:
        """U, the paper's B_gpu."""
        return int(self.units.shape[2])

    @property
    def global_batch(self) -> int:
        """B, images per step."""
        return self.ranks * self.views_per_unit

    def views(self, step: int) -> NDArray[np.int32]:
        """All views of a step in unit order, [B]."""
        return self.units[step].reshape(-1)

    def first(self, steps: int) -> Plan:
        """The plan of its first `steps` steps, or of all where it has no more. steps: at least 1"""
        return replace(
            self,
            units=self.units[:steps],
            region=self.region[:steps],
            mixed=self.mixed[:steps],
            blocking=self.blocking[: steps - 1],
        )

    def digest(self) -> str:
        """Hash of everything a run depends on; equal plans have equal digests on all ranks."""
        h = hashlib.sha256()
        for part in (self.units, self.region, self.mixed, self.blocking):
            h.update(np.ascontiguousarray(part).tobytes())
        h.update(f"{self.version} {self.train_count}".encode())
        return h.hexdigest()[:16]
