"""The torch row kernel: the bits of the Numba kernel, the same bits on any split, and no wait for the device."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode

from odin import rows as host
from odin.device import rows as device
from odin.device.rows import DeviceMoments, DeviceRows, apply_correction, apply_gradient, apply_zero
from odin.rows import ADAM, AdamConstants, Moments, Update
from tests.odin.sync import HostSyncError, NoHostCopy, NoHostSync
from tests.odin.test_rows import LAYOUT, every, filled_slot, fresh, sparse_gradients

CPU = torch.device("cpu")


def twin(state: Moments, to: torch.device = CPU) -> DeviceMoments:
    """A copy of a state on a device."""
    p, m, v = (torch.from_numpy(a.copy()).to(to) for a in (state.p, state.m, state.v))
    return DeviceMoments(p=p, m=m, v=v)


def ids_of(rows: np.ndarray, lo: int = 0, hi: int = 2, to: torch.device = CPU) -> DeviceRows:
    return DeviceRows(ids=torch.from_numpy(rows.astype(np.int64)).to(to), layout=LAYOUT, lo=lo, hi=hi)


def same_bits(a: DeviceMoments, b: Moments | DeviceMoments) -> bool:
    pairs = [(a.p, b.p), (a.m, b.m), (a.v, b.v)]
    return all(x.cpu().numpy().tobytes() == torch.as_tensor(y).cpu().numpy().tobytes() for x, y in pairs)


def train_both(
    gradients: list[np.ndarray], lr: np.ndarray, to: torch.device = CPU, adam: AdamConstants = ADAM
) -> tuple[Moments, DeviceMoments]:
    """Zero steps corrected one step late and plain steps, in turn, by both kernels."""
    rows = np.arange(len(gradients[0]))
    a = fresh(len(rows))
    b = twin(a, to)
    for t, gradient in enumerate(gradients, start=1):
        slot, update = filled_slot(gradient), Update(t=t, lr=lr, scale=0.25, adam=adam)
        values, offsets = (torch.from_numpy(x).to(to) for x in (slot.values, slot.offsets))
        if t % 2:
            host.apply_gradient(a, update, every(rows), slot.values, slot.offsets)
            apply_gradient(b, update, ids_of(rows, to=to), values, offsets)
            continue
        host.apply_zero(a, update, every(rows))
        apply_zero(b, update, ids_of(rows, to=to))
        touched = host.apply_correction(a, update, every(rows), slot.values, slot.offsets)
        assert int(apply_correction(b, update, ids_of(rows, to=to), values, offsets)) == touched
    return a, b


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), steps=st.integers(1, 12), batch=st.sampled_from([1, 4, 16]))
def test_same_bits_as_the_numba_kernel(seed: int, steps: int, batch: int) -> None:
    """With the constants that Grendel scales to its batch, too."""
    lr = np.random.default_rng(seed).uniform(1e-5, 1e-1, 59)
    a, b = train_both(sparse_gradients(steps, 30, seed), lr, adam=ADAM.for_batch(batch))
    assert same_bits(b, a)


def test_same_bits_after_300_steps() -> None:
    a, b = train_both(sparse_gradients(300, 100, 1), np.linspace(1e-4, 5e-2, 59))
    assert same_bits(b, a)


def test_torchs_own_root_stays_within_the_tolerance(monkeypatch) -> None:
    # Where it is not correctly rounded, this is what is left: parameters only, within the bound for another kernel.
    monkeypatch.setattr(device, "_sqrt", torch.sqrt)
    a, b = train_both(sparse_gradients(300, 100, 1), np.linspace(1e-4, 5e-2, 59))
    assert a.m.tobytes() == b.m.numpy().tobytes()
    assert a.v.tobytes() == b.v.numpy().tobytes()
    p, start = b.p.numpy(), fresh(100).p
    for group in (slice(0, 11), slice(11, 59)):
        moved = np.linalg.norm(a.p[:, group] - start[:, group])
        assert np.linalg.norm(a.p[:, group] - p[:, group]) <= 2e-6 * moved
        assert np.abs(a.p[:, group] - p[:, group]).max() <= 1e-6 * np.abs(a.p[:, group]).max()


def split_and_whole(seed: int, steps: int, to: torch.device = CPU) -> tuple[DeviceMoments, DeviceMoments]:
    """The same steps in one call each, and in pieces of rows and groups with zero steps where nothing was touched."""
    rng, n = np.random.default_rng(seed), 40
    whole, split = twin(fresh(n, seed), to), twin(fresh(n, seed), to)
    for t, gradient in enumerate(sparse_gradients(steps, n, seed), start=1):
        update = Update(t=t, lr=rng.uniform(1e-4, 1e-1, 59), scale=0.25)
        touched = rng.random(n) < 0.5
        gradient[~touched] = 0.0
        slot = filled_slot(gradient)
        values, offsets = (torch.from_numpy(x).to(to) for x in (slot.values, slot.offsets))
        apply_gradient(whole, update, ids_of(np.arange(n), to=to), values, offsets)
        apply_zero(split, update, ids_of(np.flatnonzero(~touched), to=to))
        for piece in np.array_split(rng.permutation(np.flatnonzero(touched)), 3):
            apply_gradient(split, update, ids_of(piece, 1, 2, to), values, offsets)
            apply_gradient(split, update, ids_of(piece, 0, 1, to), values, offsets)
    return whole, split


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), steps=st.integers(1, 6))
def test_any_split_gives_the_same_bits(seed: int, steps: int) -> None:
    assert same_bits(*split_and_whole(seed, steps))


def test_chunks_are_a_split(monkeypatch) -> None:
    whole, _ = split_and_whole(5, 4)
    monkeypatch.setattr(device, "CHUNK_ROWS", 7)
    chunked, split = split_and_whole(5, 4)
    assert same_bits(whole, chunked)
    assert same_bits(whole, split)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000))
def test_any_split_of_a_correction_gives_the_same_bits(seed: int) -> None:
    rng, n = np.random.default_rng(seed), 40
    update = Update(t=3, lr=rng.uniform(1e-4, 1e-1, 59), scale=0.25)
    slot = filled_slot(sparse_gradients(1, n, seed)[0])
    values, offsets = torch.from_numpy(slot.values), torch.from_numpy(slot.offsets)
    whole, split = twin(fresh(n, seed)), twin(fresh(n, seed))
    for state in (whole, split):
        apply_gradient(state, update, ids_of(np.arange(n)), values, offsets)
        apply_zero(state, update, ids_of(np.arange(n)))
    count = apply_correction(whole, update, ids_of(np.arange(n)), values, offsets)
    parts = [apply_correction(split, update, ids_of(x), values, offsets) for x in np.array_split(rng.permutation(n), 4)]
    assert same_bits(whole, split)
    assert int(count) == sum(map(int, parts))


def test_no_rows_are_no_work() -> None:
    state = twin(fresh(3))
    update, none = Update(t=1, lr=np.ones(59), scale=1.0), ids_of(np.arange(0))
    values, offsets = torch.ones(3 * 59), torch.zeros((2, 3), dtype=torch.int64)
    apply_gradient(state, update, none, values, offsets)
    apply_zero(state, update, none)
    assert int(apply_correction(state, update, none, values, offsets)) == 0
    assert same_bits(state, fresh(3))


def test_denormal_moments_are_flushed() -> None:
    state = twin(fresh(1))
    for moment in (state.m, state.v):
        moment.fill_(1e-38)
    apply_zero(state, Update(t=5, lr=np.zeros(59), scale=1.0), ids_of(np.arange(1)))
    assert (state.m == 0).all()
    assert (state.v == 0).all()


def test_moments_that_are_no_number_stay() -> None:
    state = twin(fresh(2))
    state.m[1, 4] = torch.nan
    apply_zero(state, Update(t=5, lr=np.full(59, 1e-3), scale=1.0), ids_of(np.arange(2)))
    assert torch.argwhere(~torch.isfinite(state.p)).tolist() == [[1, 4]]


def test_zero_gradient_corrects_no_bit() -> None:
    state = twin(fresh(20))
    state.p[3] = -0.0  # adding a zero would change its sign
    before = twin(Moments(p=state.p.numpy(), m=state.m.numpy(), v=state.v.numpy()))
    slot = filled_slot(np.zeros((20, 59), np.float32))
    update = Update(t=3, lr=np.full(59, 1e-2), scale=1.0)
    values, offsets = torch.from_numpy(slot.values), torch.from_numpy(slot.offsets)
    assert int(apply_correction(state, update, ids_of(np.arange(20)), values, offsets)) == 0
    assert same_bits(state, before)


def every_call(to: torch.device) -> None:
    """All three kernels on a small state that is made on `to`."""
    values, offsets = torch.zeros(20 * 59, device=to), torch.zeros((2, 20), dtype=torch.int64, device=to)
    p, m, v = (torch.ones((20, 59), device=to) for _ in range(3))
    state = DeviceMoments(p=p, m=m, v=v)
    rows = DeviceRows(ids=torch.arange(20, device=to), layout=LAYOUT, lo=0, hi=2)
    update = Update(t=3, lr=np.full(59, 1e-2), scale=1.0)
    apply_gradient(state, update, rows, values, offsets)
    apply_zero(state, update, rows)
    apply_correction(state, update, rows, values, offsets)


def test_the_host_never_waits() -> None:
    with NoHostSync(), NoHostCopy():
        every_call(CPU)


def test_the_host_never_waits_for_a_cuda_tensor(monkeypatch) -> None:
    # Fake tensors carry shapes and devices only: anything that needs a value, or mixes devices, raises.
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)  # needs a real device
    with FakeTensorMode():
        every_call(torch.device("cuda", 0))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.sum().item(),
        lambda x: x[x > 0],
        lambda x: x.nonzero(),
        lambda x: float(x.sum()),
        lambda x: x.cpu(),
        lambda x: x.numpy(),
        lambda x: x.to("cpu"),
        lambda x: bool((x > 0).all()),
        lambda x: torch.masked_select(x, x > 0),
        lambda x: x.__setitem__(x > 0, 0.0),
    ],
)
def test_the_refusal_refuses(call) -> None:
    with pytest.raises(HostSyncError), NoHostSync(), NoHostCopy():
        call(torch.ones(3))


@pytest.mark.parametrize("call", [lambda x: x.sum().item(), lambda x: x[x > 0], lambda x: x.nonzero()])
def test_fake_tensors_refuse_too(call) -> None:
    with pytest.raises((DataDependentOutputException, DynamicOutputShapeException)), FakeTensorMode():
        call(torch.ones(3, device="cuda"))
