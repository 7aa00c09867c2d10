"""One row kernel for every arm: dense Adam on any subset of rows and columns (D§5 Split publication).

All arithmetic is IEEE float32 without contraction or reassociation, element by element, so a row gets the same
bits whether it is updated with all others (barrier), with the rows of a segment, or by a zero-gradient step.
That is the whole basis of "exact arms are bit-identical".

Legend: N rows, D columns, R rows of one call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from odin.bound import BETA1, BETA2
from odin.layout import ColumnLayout

EPS = 1e-15  # all five pipelines use torch's Adam with this eps
# Denormal moments cost up to 100× per operation and depend on a thread flag; flushing them here does not. NaN is no
# denormal: it stays, as in torch, so that a gradient that is no number is noticed (odin/finite.py).
TINY = np.float32(2.0**-126)

_ZERO = np.float32(0.0)


@dataclass(frozen=True, kw_only=True)
class AdamConstants:
    """β1, β2 and ε of an optimizer; all pipelines but Grendel have the usual ones."""

    beta1: float = BETA1
    beta2: float = BETA2
    eps: float = EPS

    def for_batch(self, batch: int) -> AdamConstants:
        """Grendel's square-root rule for `batch` images a step: moments forget per image, ε shrinks with the noise of
        the mean gradient (FORKS.md: betas ** bsz, eps / √bsz). Learning rates grow by √batch beside it."""
        return AdamConstants(beta1=self.beta1**batch, beta2=self.beta2**batch, eps=self.eps / math.sqrt(batch))

    def kernel(self) -> tuple[np.float32, np.float32, np.float32, np.float32]:
        """1-β1, β2, 1-β2 and ε as the row kernel takes them."""
        return np.float32(1.0 - self.beta1), np.float32(self.beta2), np.float32(1.0 - self.beta2), np.float32(self.eps)


ADAM = AdamConstants()


@dataclass(frozen=True, kw_only=True)
class HeldUpdate:
    """An update's part for a held group (odin/held.py).

    t:       Adam steps of the group, including this one if it is one
    applies: the group's summed gradient is applied in this step
    """

    t: int
    applies: bool

    def step_sizes(self, lr: NDArray[np.float64]) -> NDArray[np.float32]:
        """lr / (1-β1ᵗ), float32, for float64 learning rates."""
        return (lr / (1.0 - BETA1**self.t)).astype(np.float32)

    def denominator_scale(self) -> np.float32:
        """√(1-β2ᵗ)."""
        return np.float32(math.sqrt(1.0 - BETA2**self.t))


@dataclass(frozen=True, kw_only=True)
class Update:
    """What an optimizer step is bound to at launch, however late it is applied.

    t:     Adam step counter, ≥ 1
    lr:    float64 [D], learning rate of each column at that step
    scale: factor on the reduced gradient (1 / global batch)
    visible: index of the slot's visible column (selective Adam: rows that no view saw keep their state, and there is
        no bias correction, as in SparseGaussianAdam); None for dense Adam
    held:  the last column group is applied every few steps only; None where no group is
    adam:  constants of the optimizer
    """

    t: int
    lr: NDArray[np.float64]
    scale: float
    visible: int | None = None
    held: HeldUpdate | None = None
    adam: AdamConstants = ADAM

    def step_sizes(self) -> NDArray[np.float32]:
        """lr / (1-β1ᵗ), float32 [D]; lr where there is no bias correction."""
        if self.visible is not None:
            return self.lr.astype(np.float32)
        return (self.lr / (1.0 - self.adam.beta1**self.t)).astype(np.float32)

    def denominator_scale(self) -> np.float32:
        """√(1-β2ᵗ); 1 where there is no bias correction."""
        if self.visible is not None:
            return np.float32(1.0)
        return np.float32(math.sqrt(1.0 - self.adam.beta2**self.t))


# Slices and unsigned loop indices: with signed ones LLVM keeps numpy's wrap-around and does not vectorise (10×).
# Gradients of a row's groups are first gathered side by side, so that one vector loop covers the row however the
# slot is laid out; otherwise a layout would be faster than another for no reason of principle.


@njit(nogil=True, cache=True, inline="always")
def _gather(out: NDArray, grad: NDArray, offsets: NDArray, bounds: NDArray, lo: int, hi: int, row: int) -> None:
    for group in range(lo, hi):
        source, first = offsets[group, row], bounds[group]
        for c in range(np.uint64(bounds[group + 1] - first)):
            out[first + c] = grad[source + c]


@njit(nogil=True, cache=True, error_model="numpy")
def _adam(
    p: NDArray, m: NDArray, v: NDArray, width: int, bounds: NDArray, lo: int, hi: int, rows: NDArray,
    grad: NDArray, offsets: NDArray, zero: bool, scale: float, step: NDArray, root: float, visible: int,
    keep1: float, b2: float, keep2: float, eps: float,
) -> None:  # fmt: skip
    """Flat p, m, v [N·width]; column groups lo…hi-1 of `rows`. `zero` takes every gradient as 0; rows whose column
    of group `visible` is 0 are left out, unless it is -1."""
    gradient = np.zeros(width, np.float32)
    first, last = bounds[lo], bounds[hi]
    size, gr = step[first:last], gradient[first:last]
    for k in range(rows.shape[0]):
        row = np.int64(rows[k])
        if visible >= 0 and grad[offsets[visible, row]] == _ZERO:
            continue
        if not zero:
            _gather(gradient, grad, offsets, bounds, lo, hi, row)
        base = row * width
        pr, mr = p[base + first : base + last], m[base + first : base + last]
        vr = v[base + first : base + last]
        for c in range(np.uint64(last - first)):
            g = gr[c] * scale
            mi = mr[c] + (g - mr[c]) * keep1
            vi = vr[c] * b2 + (g * g) * keep2
            mi = _ZERO if abs(mi) < TINY else mi
            vi = _ZERO if vi < TINY else vi
            mr[c] = mi
            vr[c] = vi
            pr[c] = pr[c] - size[c] * (mi / (np.sqrt(vi) / root + eps))


@njit(nogil=True, cache=True, inline="always", error_model="numpy")
def _correct_row(
    pr: NDArray, mr: NDArray, vr: NDArray, gr: NDArray, scale: float, size: NDArray, root: float,
    keep1: float, keep2: float, eps: float,
) -> None:  # fmt: skip
    """Turn a row's zero-gradient step into that by its gradient `gr`."""
    for c in range(np.uint64(len(gr))):
        g = gr[c] * scale
        before = size[c] * (mr[c] / (np.sqrt(vr[c]) / root + eps))
        mi = mr[c] + g * keep1
        vi = vr[c] + (g * g) * keep2
        mi = _ZERO if abs(mi) < TINY else mi
        vi = _ZERO if vi < TINY else vi
        mr[c] = mi
        vr[c] = vi
        pr[c] = pr[c] + (before - size[c] * (mi / (np.sqrt(vi) / root + eps)))


@njit(nogil=True, cache=True, error_model="numpy")
def _correct(
    p: NDArray, m: NDArray, v: NDArray, width: int, bounds: NDArray, lo: int, hi: int, rows: NDArray,
    grad: NDArray, offsets: NDArray, scale: float, step: NDArray, root: float,
    keep1: float, b2: float, keep2: float, eps: float,
) -> int:  # fmt: skip
    """As `_adam` for rows that already took the zero-gradient step; rows with a zero gradient are skipped."""
    gradient = np.zeros(width, np.float32)
    first, last = bounds[lo], bounds[hi]
    size, gr = step[first:last], gradient[first:last]
    touched = 0
    for k in range(rows.shape[0]):
        row = np.int64(rows[k])
        _gather(gradient, grad, offsets, bounds, lo, hi, row)
        nonzero = False
        for c in range(np.uint64(last - first)):
            nonzero |= gr[c] != _ZERO
        if not nonzero:
            continue
        touched += 1
        base = row * width
        pr, mr = p[base + first : base + last], m[base + first : base + last]
        vr = v[base + first : base + last]
        _correct_row(pr, mr, vr, gr, scale, size, root, keep1, keep2, eps)
    return touched


@njit(nogil=True, cache=True, error_model="numpy")
def _advance(
    p: NDArray, m: NDArray, v: NDArray, width: int, bounds: NDArray, lo: int, hi: int, rows: NDArray,
    grad: NDArray, offsets: NDArray, scale: float, step: NDArray, root: float,
    keep1: float, b2: float, keep2: float, eps: float, own_step: NDArray, own_root: float,
) -> int:  # fmt: skip
    """`_correct` of a row, then `_adam` of the next step (own_step, own_root) with a gradient of zero, while the row is
    in the cache: the state is read and written once."""
    gradient = np.zeros(width, np.float32)
    first, last = bounds[lo], bounds[hi]
    size, own, gr = step[first:last], own_step[first:last], gradient[first:last]
    touched = 0
    for k in range(rows.shape[0]):
        row = np.int64(rows[k])
        _gather(gradient, grad, offsets, bounds, lo, hi, row)
        nonzero = False
        for c in range(np.uint64(last - first)):
            nonzero |= gr[c] != _ZERO
        base = row * width
        pr, mr = p[base + first : base + last], m[base + first : base + last]
        vr = v[base + first : base + last]
        if nonzero:
            touched += 1
            _correct_row(pr, mr, vr, gr, scale, size, root, keep1, keep2, eps)
        for c in range(np.uint64(last - first)):
            mi = mr[c] + (_ZERO - mr[c]) * keep1
            vi = vr[c] * b2
            mi = _ZERO if abs(mi) < TINY else mi
            vi = _ZERO if vi < TINY else vi
            mr[c] = mi
            vr[c] = vi
            pr[c] = pr[c] - own[c] * (mi / (np.sqrt(vi) / own_root + eps))
    return touched


@dataclass(frozen=True, kw_only=True)
class Moments:
    """Parameters and Adam moments as numpy views of shared storage, each float32 [N, D], C-contiguous."""

    p: NDArray[np.float32]
    m: NDArray[np.float32]
    v: NDArray[np.float32]

    def flat(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32], int]:
        """(p, m, v) as flat views, and D."""
        return self.p.reshape(-1), self.m.reshape(-1), self.v.reshape(-1), self.p.shape[1]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Which part of the table an update touches: `ids` (int32 [R], each at most once), groups lo…hi-1."""

    ids: NDArray[np.int32]
    layout: ColumnLayout
    lo: int
    hi: int


_NO_VALUES = np.zeros(1, np.float32)
_NO_OFFSETS = np.zeros((1, 1), np.int64)


def apply_gradient(
    state: Moments, update: Update, rows: Rows, gradient: NDArray[np.float32], offsets: NDArray[np.int64]
) -> None:
    """Adam step of `rows`, in place.

    gradient: flat float32 buffer, summed over ranks
    offsets:  int64 [G, N], position in `gradient` of a row's first column of each group
    """
    _adam(*state.flat(), rows.layout.bounds, rows.lo, rows.hi, rows.ids, gradient, offsets, False,
          np.float32(update.scale), update.step_sizes(), update.denominator_scale(),
          -1 if update.visible is None else update.visible, *update.adam.kernel())  # fmt: skip


def apply_zero(state: Moments, update: Update, rows: Rows) -> None:
    """Zero-gradient Adam step of `rows`, in place: momentum only. Selective Adam takes none."""
    if update.visible is None:
        _adam(*state.flat(), rows.layout.bounds, rows.lo, rows.hi, rows.ids, _NO_VALUES, _NO_OFFSETS, True,
              np.float32(0.0), update.step_sizes(), update.denominator_scale(), -1, *update.adam.kernel())  # fmt: skip


def apply_correction(
    state: Moments, update: Update, rows: Rows, gradient: NDArray[np.float32], offsets: NDArray[np.int64]
) -> int:
    """Turn an already applied zero-gradient step into the real one (D§6 Predicted reads); rows touched.

    With m₁ = β1·m, v₁ = β2·v from the zero step: m ← m₁ + (1-β1)g, v ← v₁ + (1-β2)g², and the parameter moves
    by the difference of the two steps at the same t and lr. g = 0 changes nothing, so those rows are skipped.
    Must run before the next step's zero step. Selective Adam took no step, so this is the whole update.
    """
    if update.visible is not None:
        apply_gradient(state, update, rows, gradient, offsets)
        return len(rows.ids)
    args = (np.float32(update.scale), update.step_sizes(), update.denominator_scale(), *update.adam.kernel())
    return int(_correct(*state.flat(), rows.layout.bounds, rows.lo, rows.hi, rows.ids, gradient, offsets, *args))


def apply_advance(
    state: Moments,
    before: Update,
    update: Update,
    rows: Rows,
    gradient: NDArray[np.float32],
    offsets: NDArray[np.int64],
) -> int:
    """`apply_correction` of `before`, then `apply_zero` of `update`, bit for bit, in one pass; rows corrected.

    gradient, offsets: of `before`. Both updates are of one optimizer. Selective Adam takes no zero step.
    """
    if before.visible is not None:
        return apply_correction(state, before, rows, gradient, offsets)
    corrects = (np.float32(before.scale), before.step_sizes(), before.denominator_scale(), *before.adam.kernel())
    own = (update.step_sizes(), update.denominator_scale())
    return int(
        _advance(*state.flat(), rows.layout.bounds, rows.lo, rows.hi, rows.ids, gradient, offsets, *corrects, *own)
    )
