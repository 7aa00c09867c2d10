"""Selective Adam in the row kernel: the rule of 3DGS's SparseGaussianAdam, on any cut, and its bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.bound import BETA1, BETA2, adam_bound, selective_bound
from odin.layout import ColumnLayout
from odin.publication.layout import Cutting, lay_out
from odin.rows import EPS, Moments, Rows, Update, apply_correction, apply_gradient, apply_zero
from odin.slot import GradientSlot
from tests.odin.test_layout import VISIBLE, random_classes
from tests.odin.test_rows import LAYOUT, every, fresh, sparse_gradients

WIDE: ColumnLayout = LAYOUT.with_visible()
LR = np.linspace(1e-4, 5e-2, 59)


def slot_of(gradient: np.ndarray, views: np.ndarray, seed: int = 0) -> GradientSlot:
    """A slot in a random cut, filled with a gradient [N, 59] and how many views saw each row [N]."""
    rows, rng = len(gradient), np.random.default_rng(seed)
    cutting = Cutting(
        unit=3, groups=2, split=bool(rng.integers(2)), early=rows // 4, lead=rows // 3, visible=(VISIBLE,)
    )
    slot = GradientSlot(rows, WIDE)
    slot.partition(lay_out(random_classes(rows, 3, seed), cutting).segments)
    ids = np.arange(rows, dtype=np.int32)
    slot.add(0, ids, np.ascontiguousarray(gradient[:, :11]))
    slot.add(1, ids, np.ascontiguousarray(gradient[:, 11:]))
    slot.add(VISIBLE, ids, views[:, None].astype(np.float32))
    return slot


def selective(t: int, lr: np.ndarray = LR, scale: float = 1.0) -> Update:
    return Update(t=t, lr=lr, scale=scale, visible=VISIBLE)


def bits(state: Moments) -> tuple[bytes, bytes, bytes]:
    return state.p.tobytes(), state.m.tobytes(), state.v.tobytes()


def seen_by(rows: int, seed: int) -> np.ndarray:
    """How many views see each row: none, one, or several."""
    return np.random.default_rng([seed, 9]).choice([0, 1, 2, 5], rows, p=[0.5, 0.3, 0.1, 0.1])


def test_matches_the_rule_after_300_steps() -> None:
    """In float64, with torch, over rows of its own: what SparseGaussianAdam's kernel computes."""
    rows, state = 150, fresh(150)
    p, m, v = (torch.from_numpy(x.astype(np.float64)) for x in (state.p, state.m, state.v))
    lr, start = torch.from_numpy(LR), p.clone()
    for t, gradient in enumerate(sparse_gradients(300, rows, 2), start=1):
        views = seen_by(rows, t)
        slot = slot_of(gradient, views, seed=t % 7)
        apply_gradient(state, selective(t, scale=0.25), every(np.arange(rows)), slot.values, slot.offsets)
        g, seen = 0.25 * torch.from_numpy(gradient.astype(np.float64)), torch.from_numpy(views > 0)
        m[seen] = BETA1 * m[seen] + (1 - BETA1) * g[seen]
        v[seen] = BETA2 * v[seen] + (1 - BETA2) * g[seen] ** 2
        p[seen] -= lr * m[seen] / (v[seen].sqrt() + EPS)
    moved = p - start
    assert float((torch.from_numpy(state.p) - p).norm() / moved.norm()) < 2e-6
    assert np.allclose(state.m, m, rtol=1e-4, atol=1e-9 * float(m.abs().max()))
    assert np.allclose(state.v, v, rtol=1e-4, atol=1e-9 * float(v.max()))


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(1, 50), seed=st.integers(0, 1000))
def test_equals_the_rule_bit_for_bit_in_float32(rows: int, seed: int) -> None:
    """The same formulas in the kernel's order of operations, in numpy."""
    rng, state = np.random.default_rng(seed), fresh(rows, seed)
    state.m[:], state.v[:] = rng.normal(size=(rows, 59)), rng.random((rows, 59))
    p, m, v = state.p.copy(), state.m.copy(), state.v.copy()
    gradient, views = sparse_gradients(1, rows, seed)[0], seen_by(rows, seed)
    slot = slot_of(gradient, views, seed)
    apply_gradient(state, selective(5, scale=0.125), every(np.arange(rows)), slot.values, slot.offsets)
    seen, g = views > 0, gradient * np.float32(0.125)
    m[seen] += (g - m)[seen] * np.float32(1 - BETA1)
    v[seen] = v[seen] * np.float32(BETA2) + g[seen] * g[seen] * np.float32(1 - BETA2)
    p[seen] -= LR.astype(np.float32) * (m[seen] / (np.sqrt(v[seen]) + np.float32(EPS)))
    assert bits(state) == (p.tobytes(), m.tobytes(), v.tobytes())


def test_rows_that_no_view_saw_are_left_alone_whatever_their_gradient() -> None:
    state, gradient = fresh(4), np.ones((4, 59), np.float32)
    state.m[:], state.v[:] = 0.3, 0.2
    before = fresh(4).p
    gradient[1] = np.nan
    gradient[2] = 0.0
    slot = slot_of(gradient, np.array([0, 0, 1, 1]))
    apply_gradient(state, selective(3), every(np.arange(4)), slot.values, slot.offsets)
    assert state.p[:2].tobytes() == before[:2].tobytes()
    assert (state.m[:2] == np.float32(0.3)).all()
    assert (state.v[:2] == np.float32(0.2)).all()
    # Seen without a gradient: momentum goes on. Seen with one: both.
    assert np.allclose(state.m[2:, 0], [0.9 * 0.3, 0.9 * 0.3 + 0.1])
    assert (state.p[2:] < before[2:]).all()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000), steps=st.integers(1, 6))
def test_any_split_gives_the_same_bits(seed: int, steps: int) -> None:
    rng, n = np.random.default_rng(seed), 40
    whole, split, corrected = fresh(n, seed), fresh(n, seed), fresh(n, seed)
    for t, gradient in enumerate(sparse_gradients(steps, n, seed), start=1):
        update, views = selective(t, rng.uniform(1e-4, 1e-1, 59), 0.25), seen_by(n, seed + t)
        slot, other = slot_of(gradient, views, seed), slot_of(gradient, views, seed + 1)
        apply_gradient(whole, update, every(np.arange(n)), slot.values, slot.offsets)
        apply_zero(split, update, every(np.flatnonzero(rng.random(n) < 0.3)))
        for piece in np.array_split(rng.permutation(n), 3):
            apply_gradient(split, update, every(piece, 1, 2), other.values, other.offsets)
            apply_gradient(split, update, every(piece, 0, 1), other.values, other.offsets)
        apply_zero(corrected, update, every(np.arange(n)))
        for piece in np.array_split(rng.permutation(n), 2):
            assert apply_correction(corrected, update, every(piece), other.values, other.offsets) == len(piece)
    assert bits(whole) == bits(split) == bits(corrected)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 1), st.integers(1, 2))
def test_a_zero_step_changes_nothing(seed: int, lo: int, hi: int) -> None:
    rng, state = np.random.default_rng(seed), fresh(12, seed)
    state.m[:], state.v[:] = rng.normal(size=(12, 59)), rng.random((12, 59))
    before = bits(state)
    apply_zero(state, selective(7), every(rng.permutation(12)[:8], min(lo, hi - 1), hi))
    assert bits(state) == before


def last_move(update_of: object, signal: np.ndarray, counted: np.ndarray) -> tuple[float, int]:
    """Largest |update| / lr of the last of one row's updates with gradients signal [S, 59], and its step counter.

    counted: bool [S], the steps in which the row takes an update; the counter runs on in the others
    """
    state, lr = fresh(1), np.full(59, 1e-2)
    t, rows = 0, every(np.arange(1))
    before = state.p
    for t, (gradient, seen) in enumerate(zip(signal, counted, strict=True), start=1):
        if not seen:
            continue
        state.p[:] = 0.0  # so that rounding of the parameter is no part of the move
        before = state.p.copy()
        slot = slot_of(gradient[None].astype(np.float32), np.ones(1))
        apply_gradient(state, update_of(t, lr), rows, slot.values, slot.offsets)
    return float(np.abs(state.p - before).max()) / 1e-2, t


def dense(t: int, lr: np.ndarray) -> Update:
    return Update(t=t, lr=lr, scale=1.0)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 300), st.floats(0.8, 1.4), st.floats(0.0, 1.0), st.integers(0, 10**6))
def test_no_gradients_move_a_row_further_than_the_bound(steps: int, growth: float, share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = np.clip(growth ** np.arange(steps), 1e-12, 1e12)[:, None]
    flips = np.where(rng.random((steps, 59)) < 0.1 * (np.arange(59) % 3), -1.0, 1.0)
    counted = rng.random(steps) < share
    counted[-1] = True
    move, t = last_move(selective, size * flips, counted)
    assert move <= selective_bound(int(counted.sum())) <= selective_bound(t)


@pytest.mark.parametrize(("update_of", "bound"), [(selective, selective_bound), (dense, adam_bound)])
@pytest.mark.parametrize("steps", [1, 2, 3, 10, 50, 150, 300])
def test_the_worst_history_attains_the_bound(update_of: object, bound: object, steps: int) -> None:
    """Gradients that grow by β2/β1, 1.11 a step; none is below the smallest that float32 can square."""
    exponent = np.arange(steps) - min(steps / 2, 150)
    signal = np.repeat((BETA2 / BETA1) ** exponent[:, None], 59, axis=1)
    move, t = last_move(update_of, signal, np.ones(steps, bool))
    assert t == steps
    assert move == pytest.approx(bound(steps), rel=1e-3)
    assert move <= bound(steps)


def test_the_selective_bound_in_numbers() -> None:
    """RUNTIME.md 4: 3.162 at the first update, 6.81 at the tenth, 7.2703 at most; it only grows."""
    assert selective_bound(1) == pytest.approx(math.sqrt(10.0), rel=2e-4)
    assert selective_bound(10) == pytest.approx(6.81, rel=1e-3)
    assert selective_bound(10**6) == pytest.approx(7.2703, rel=3e-4)
    values = [selective_bound(t) for t in range(1, 500)]
    assert values == sorted(values)
    assert all(selective_bound(t) >= adam_bound(t) for t in range(1, 500))


def test_rows_of_a_call_are_its_rows() -> None:
    state, slot = fresh(5), slot_of(np.ones((5, 59), np.float32), np.ones(5))
    before = fresh(5)
    rows = Rows(ids=np.array([1, 3], np.int32), layout=LAYOUT, lo=1, hi=2)
    apply_gradient(state, selective(1), rows, slot.values, slot.offsets)
    changed = state.p != before.p
    assert changed[[1, 3], 11:].all()
    assert changed.sum() == 2 * 48
