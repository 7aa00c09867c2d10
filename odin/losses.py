"""Losses of a run's steps, which a device tells some steps later, and the records that wait for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from odin.arriving import Scalar, known, mean
from odin.finite import require_finite_loss
from odin.plan import Plan


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """One step of one rank: monotonic seconds, mean loss of its views, whether a structural event followed.

    On a device the times and the loss of a step are known some steps later: until the end of the run `start` and
    `end` are when the host got there, and `loss` is the last one known (NaN before the first).
    """

    step: int
    start: float
    end: float
    structural: bool
    loss: float


class LossLog:
    """Losses of the steps from `first` on, in their order."""

    def __init__(self, plan: Plan, first: int) -> None:
        self._plan, self._first = plan, first
        self._losses: list[list[Scalar]] = []  # of the views of each step
        self._shares: list[float] = []
        self._seen = 0  # steps whose losses are known

    def add(self, losses: list[Scalar], share: float = 1.0) -> None:
        """Of the views of the next step. share: factor on their mean; a step without any has the loss 0"""
        self._losses.append(losses)
        self._shares.append(share)

    def latest(self) -> float:
        """Loss of the last step of which it is known, NaN before the first; no device is waited for. Raises RunError
        where it is not finite."""
        while self._seen < len(self._losses) and known(self._losses[self._seen]):
            if self._losses[self._seen]:
                self._losses[self._seen] = [mean(self._losses[self._seen])]  # lets go of what it was read from
            self._seen += 1
        if not self._seen:
            return math.nan
        return self._require_finite(self._seen - 1)

    def _require_finite(self, number: int) -> float:
        step, loss = self._first + number, self._of(number)
        require_finite_loss(loss, step, self._plan.views(step))
        return loss

    def _of(self, number: int) -> float:
        losses = self._losses[number]
        return mean(losses) * self._shares[number] if losses else 0.0

    def completed(self, records: list[StepRecord], moments: Sequence[float]) -> list[StepRecord]:
        """Records with what was not known when they were made; blocks until the device has told. Raises RunError as
        `latest` does. moments: of the run's beginning and of every step's end, where they are known only now"""
        for number in range(self._seen, len(self._losses)):
            self._require_finite(number)
        whole = [replace(record, loss=self._of(number)) for number, record in enumerate(records)]
        if not moments:
            return whole
        pairs = zip(whole, pairwise(moments), strict=True)
        return [replace(record, start=start, end=end) for record, (start, end) in pairs]
