"""The audit of reads that are not waited for (D§6 Predicted reads, Audit).

At p0 of B, after A is published, each rank computes its unit of B once more from published values, into the slot that
A has just left. Nothing else changes: statistics and counters are left alone, and the gradient that is exchanged is the
one that B computed first. The error is relative to the whole step, so every rank sees the same number and decides
alike; above the limit the run goes on as `quality` until the next structural event.

Legend: N rows, D columns, W ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from odin.arms import AUDIT_LIMIT
from odin.comm.transport import Transport
from odin.keeper import Keeper
from odin.phases import Category, Phase
from odin.plan import Plan
from odin.recipe import Frame, Recipe
from odin.slot import Slot


@dataclass(frozen=True, kw_only=True)
class AuditRecord:
    """One audit of a step.

    error:   √(Σ_ranks ‖g_read − g_published‖² / Σ_ranks ‖g_published‖²) over all columns
    by_kind: the same for each kind of parameter
    pixel:   largest change of a pixel's channel in any view of the step, 0…1
    """

    step: int
    error: float
    by_kind: dict[str, float]
    pixel: float

    @property
    def failed(self) -> bool:
        """The error is above the limit."""
        return not self.error <= AUDIT_LIMIT


def audited_steps(every: int, plan: Plan, drops: Callable[[int], bool]) -> frozenset[int]:
    """Steps that are audited: every `every`-th (0: none). Where that one reads nothing late, because the window before
    it is blocking, or its gradient is dropped (`drops`), the next that can be, up to the next that is due: structural
    events like to fall on round numbers as well, and would hide a whole run from the audit."""
    found = set()
    for due in range(every, plan.steps, every) if every else ():
        could = (s for s in range(due, min(due + every, plan.steps)) if not plan.blocking[s - 1] and not drops(s))
        found |= set(islice(could, 1))
    return frozenset(found)


class Auditor:
    """Audits some steps; keeps the frames of a step that it is going to audit."""

    def __init__(self, steps: frozenset[int], recipe: Recipe[Any], transport: Transport, keeper: Keeper) -> None:
        self.steps, self.records = steps, list[AuditRecord]()
        self._recipe, self._transport, self._keeper = recipe, transport, keeper
        self._frames: list[Frame] = []

    def failed_at(self, step: int) -> bool:
        """Whether the step was audited and its error is too large."""
        return bool(self.records) and self.records[-1].step == step and self.records[-1].failed

    def watch(self, frame: Frame) -> None:
        """Keep a frame of the step until it is audited."""
        self._frames.append(frame)

    def forget(self) -> None:
        """The step is not audited after all."""
        self._frames = []

    def run(
        self, step: int, views: Sequence[int], rows: Sequence[NDArray[np.int32]], slot: Slot, free: Slot
    ) -> AuditRecord:
        """Recompute the unit's views (with `rows` of each) into `free`, laid out as `slot`, and compare."""
        with self._keeper.counted_as(Category.ODIN), self._recipe.unobserved():
            changes = [
                self._recompute(view, ids, free, before)
                for view, ids, before in zip(views, rows, self._frames, strict=True)
            ]
        self.forget()
        with self._keeper.phase(Phase.AUDIT, rows=slot.row_count):
            sums = kind_sums(self._recipe.kinds, slot.dense(), free.dense())
        kinds = list(self._recipe.kinds)
        record = agree(self._transport, self._keeper, step, kinds, sums, max(changes))
        self.records.append(record)
        return record

    def _recompute(self, view: int, rows: NDArray[np.int32], free: Slot, before: Frame) -> float:
        recipe, keeper = self._recipe, self._keeper
        frame = recipe.project(view, rows, keeper)
        recipe.render(frame, keeper)
        with keeper.phase(Phase.COLOUR_BACKWARD, rows=len(rows)):
            free.add_colours(rows, recipe.backward_colours(frame))
        with keeper.phase(Phase.PROJECTION_BACKWARD, rows=len(rows)):
            free.add(0, rows, recipe.backward_geometry(frame))
        return recipe.pixel_change(before, frame)


def kind_sums(
    kinds: Mapping[str, slice], read: NDArray[np.float32], published: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Squared norms of difference and truth per kind, [2, kinds], of two gradients [N, D]."""
    return np.array(
        [
            [np.square(x[:, columns], dtype=np.float64).sum() for columns in kinds.values()]
            for x in (read - published, published)
        ]
    )


def agree(
    transport: Transport, keeper: Keeper, step: int, kinds: Sequence[str], sums: NDArray[np.float64], pixel: float
) -> AuditRecord:
    """Sum over ranks; pixel changes travel in one place per rank, so that a sum carries a maximum."""
    mine = torch.zeros(sums.size + transport.ranks, dtype=torch.float64)
    mine[: sums.size] = torch.from_numpy(sums.reshape(-1))
    mine[sums.size + transport.rank] = pixel
    keeper.wait(transport.all_reduce(mine, keeper.join()), "audit")
    wrong, truth = mine[: sums.size].numpy().reshape(2, -1)
    return AuditRecord(
        step=step,
        error=_ratio(wrong.sum(), truth.sum()),
        by_kind={name: _ratio(w, t) for name, w, t in zip(kinds, wrong, truth, strict=True)},
        pixel=float(mine[sums.size :].max()),
    )


def _ratio(wrong: float, truth: float) -> float:
    """√(wrong / truth); 0 where both vanish, infinite where only the truth does."""
    if truth > 0:
        return float(np.sqrt(wrong / truth))
    return 0.0 if wrong == 0 else float("inf")
