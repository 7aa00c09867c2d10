"""A column group whose gradient is summed over several steps before it is applied (D§8: f_rest of TamingGS).

Each step's gradient of the group is exchanged like all others and added to a sum as it is published; every `every`-th
step applies the sum, in an Adam step with a counter of its own. So in the other steps nothing of the group is pending
for a reader. In the step that applies, a row outside W⁺(A) has its sum complete at p0, as it has its (zero) gradient
of the step; a row of W⁺(A) waits for it.

Sums are added in step order and per row, whatever is published when, so exact arms keep the same bits.

Legend: N rows, D columns, C columns of the group, R rows of one call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from odin.bound import BETA1, BETA2
from odin.layout import ColumnLayout
from odin.rows import EPS, TINY, HeldUpdate, Moments, Update

_KEEP1 = np.float32(1.0 - BETA1)
_B2 = np.float32(BETA2)
_KEEP2 = np.float32(1.0 - BETA2)
_EPS = np.float32(EPS)
_ZERO = np.float32(0.0)

Ids = NDArray[np.int32]
Floats = NDArray[np.float32]


@njit(nogil=True, cache=True, error_model="numpy")
def _add(sums: NDArray, columns: int, rows: NDArray, grad: NDArray, offsets: NDArray) -> None:
    """sums: flat [N·C]; offsets: int64 [N], a row's first column of the group in `grad`."""
    for k in range(rows.shape[0]):
        row = np.int64(rows[k])
        target, source = row * columns, offsets[row]
        for c in range(np.uint64(columns)):
            sums[target + c] += grad[source + c]


@njit(nogil=True, cache=True, error_model="numpy")
def _adam(
    p: NDArray, m: NDArray, v: NDArray, width: int, first: int, columns: int, rows: NDArray, sums: NDArray,
    grad: NDArray, offsets: NDArray, zero: bool, scale: float, step: NDArray, root: float,
) -> None:  # fmt: skip
    """Adam by sum + gradient; `zero` takes the gradient as 0. Same arithmetic as `odin.rows`."""
    total = np.zeros(columns, np.float32)
    for k in range(rows.shape[0]):
        row = np.int64(rows[k])
        held = sums[row * columns : (row + 1) * columns]
        for c in range(np.uint64(columns)):
            total[c] = held[c]
        if not zero:
            source = offsets[row]
            for c in range(np.uint64(columns)):
                total[c] += grad[source + c]
        base = row * width + first
        pr, mr, vr = p[base : base + columns], m[base : base + columns], v[base : base + columns]
        for c in range(np.uint64(columns)):
            g = total[c] * scale
            mi = mr[c] + (g - mr[c]) * _KEEP1
            vi = vr[c] * _B2 + (g * g) * _KEEP2
            mi = _ZERO if abs(mi) < TINY else mi
            vi = _ZERO if vi < TINY else vi
            mr[c] = mi
            vr[c] = vi
            pr[c] = pr[c] - step[c] * (mi / (np.sqrt(vi) / root + _EPS))


@njit(nogil=True, cache=True, error_model="numpy")
def _correct(
    p: NDArray, m: NDArray, v: NDArray, width: int, first: int, columns: int, rows: NDArray, sums: NDArray,
    grad: NDArray, offsets: NDArray, scale: float, step: NDArray, root: float,
) -> None:  # fmt: skip
    """Turn a step by the sum alone into one by sum + gradient: m by the difference of the two, v by that of their
    squares."""
    for k in range(rows.shape[0]):
        row = np.int64(rows[k])
        source = offsets[row]
        nonzero = False
        for c in range(np.uint64(columns)):
            nonzero |= grad[source + c] != _ZERO
        if not nonzero:
            continue
        held = sums[row * columns : (row + 1) * columns]
        base = row * width + first
        pr, mr, vr = p[base : base + columns], m[base : base + columns], v[base : base + columns]
        for c in range(np.uint64(columns)):
            before, after = held[c] * scale, (held[c] + grad[source + c]) * scale
            taken = step[c] * (mr[c] / (np.sqrt(vr[c]) / root + _EPS))
            mi = mr[c] + (after - before) * _KEEP1
            vi = vr[c] + (after * after - before * before) * _KEEP2
            mi = _ZERO if abs(mi) < TINY else mi
            vi = _ZERO if vi < TINY else vi
            mr[c] = mi
            vr[c] = vi
            pr[c] = pr[c] + (taken - step[c] * (mi / (np.sqrt(vi) / root + _EPS)))


@dataclass(frozen=True, kw_only=True)
class Reduced:
    """A reduced gradient: flat float32 values, and int64 [N] offsets of the group's columns of each row."""

    values: Floats
    offsets: NDArray[np.int64]


class Held(ABC):
    """The last column group of a table, applied every `every`-th step.

    t:    Adam steps that the group has taken
    sums: float32 [N, C], where the table is: gradients published since its last step, not divided by the batch
    """

    sums: Any

    def __init__(self, layout: ColumnLayout, every: int) -> None:
        if every < 1 or len(layout.groups) < 3:
            raise ValueError(f"a group behind geometry and colours is held for {every} steps, expected at least 1")
        self.group, self.every, self.t = len(layout.groups) - 1, every, 0
        self.first, self.columns = layout.groups[-1].first, layout.groups[-1].width
        self.clear(0)

    @abstractmethod
    def clear(self, rows: int) -> None:
        """Empty sums for a table of so many rows: a structural event that replaces it drops them, as upstream."""

    @abstractmethod
    def host_sums(self) -> Floats:
        """The sums on the host: their own storage, or a copy from the device (blocks)."""

    @abstractmethod
    def restore(self, t: int, sums: Floats) -> None:
        """Continue from so many steps and a copy of such sums."""

    # Moments, rows and reduced gradients below are those of the place that the table is in.

    @abstractmethod
    def gradient(self, state: Any, update: Update, ids: Any, reduced: Any) -> None:
        """The step's gradient of rows `ids` has arrived: sum it, or apply it with the sum."""

    @abstractmethod
    def zero(self, state: Any, update: Update, ids: Any) -> None:
        """Rows `ids` have no gradient in this step, or it is taken as zero for now."""

    @abstractmethod
    def correct(self, state: Any, update: Update, ids: Any, reduced: Any) -> None:
        """The gradient of rows that took `zero` has arrived."""

    def published(self, update: Update) -> None:
        """The step is applied to every row; the next sum starts from zero."""
        if update.held is not None and update.held.applies:
            self.sums[:] = 0.0

    def sizes(self, update: Update) -> Floats:
        """Step size of each column, float32 [C]."""
        assert update.held is not None
        lr = update.lr[self.first : self.first + self.columns]
        return update.held.step_sizes(lr)

    def applies(self, step: int) -> bool:
        """Whether the group moves in a step of the plan."""
        return (step + 1) % self.every == 0

    def bind(self, step: int) -> HeldUpdate:
        """The group's part of a step's update; counts it if it applies."""
        applies = self.applies(step)
        self.t += applies
        return HeldUpdate(t=self.t, applies=applies)


class HeldGroup(Held):
    """A held group in the host's memory."""

    sums: Floats

    def clear(self, rows: int) -> None:
        """See Held."""
        self.sums = np.zeros((rows, self.columns), np.float32)

    def host_sums(self) -> Floats:
        """See Held."""
        return self.sums

    def restore(self, t: int, sums: Floats) -> None:
        """See Held."""
        self.t, self.sums = t, sums.copy()

    def gradient(self, state: Moments, update: Update, ids: Ids, reduced: Reduced) -> None:
        """See Held."""
        held = update.held
        assert held is not None
        if not held.applies:
            _add(self.sums.reshape(-1), self.columns, ids, reduced.values, reduced.offsets)
            return
        _adam(*state.flat(), self.first, self.columns, ids, self.sums.reshape(-1), reduced.values, reduced.offsets,
              False, np.float32(update.scale), self.sizes(update), held.denominator_scale())  # fmt: skip

    def zero(self, state: Moments, update: Update, ids: Ids) -> None:
        """See Held."""
        held = update.held
        assert held is not None
        if held.applies:
            _adam(*state.flat(), self.first, self.columns, ids, self.sums.reshape(-1), _NONE, _NO_OFFSETS,
                  True, np.float32(update.scale), self.sizes(update), held.denominator_scale())  # fmt: skip

    def correct(self, state: Moments, update: Update, ids: Ids, reduced: Reduced) -> None:
        """See Held."""
        held = update.held
        assert held is not None
        if not held.applies:
            self.gradient(state, update, ids, reduced)
            return
        _correct(*state.flat(), self.first, self.columns, ids, self.sums.reshape(-1), reduced.values, reduced.offsets,
                 np.float32(update.scale), self.sizes(update), held.denominator_scale())  # fmt: skip


_NONE = np.zeros(1, np.float32)
_NO_OFFSETS = np.zeros(1, np.int64)
