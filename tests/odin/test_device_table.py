"""The table on a device moves rows as the host's does, and hands out copies only."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.arms import ARMS, arm
from odin.device.objection import device_objection
from odin.device.table import DeviceTable
from odin.rows import Update
from odin.slot import Slot
from odin.table import ParameterTable
from pipelines.reference.taminggs import HELD_LAYOUT
from tests.odin.sync import NoHostCopy, NoHostSync
from tests.odin.test_rows import LAYOUT, segment

N = 30


def tables(seed: int, selective: bool) -> tuple[ParameterTable, DeviceTable]:
    start = torch.from_numpy(np.random.default_rng(seed).normal(size=(N, LAYOUT.columns)).astype(np.float32))
    kinds = (ParameterTable, DeviceTable)
    host, device = (kind(start.clone(), LAYOUT, selective=selective) for kind in kinds)
    assert isinstance(device, DeviceTable)
    return host, device


def filled(table: ParameterTable, seed: int) -> Slot:
    """A slot with two views in it, laid out in two segments."""
    rng, every = np.random.default_rng(seed), np.arange(N, dtype=np.int32)
    slot, cut = table.make_slot(N, table.slot_layout), rng.random(N) < 0.5
    groups = (0, 1, *table.visible_group)
    slot.partition([segment("urgent", every[cut], groups), segment("rest", every[~cut], groups)])
    for _ in range(2):
        rows = np.sort(rng.permutation(N)[:20]).astype(np.int32)
        visible = rng.random(20) < 0.7
        gradient = rng.normal(size=(20, LAYOUT.columns)).astype(np.float32) * visible[:, None]
        ids, parts, seen = rows, [gradient[:, :11], gradient[:, 11:]], visible
        if isinstance(table, DeviceTable):
            ids, parts, seen = table.ids(rows), [torch.from_numpy(p.copy()) for p in parts], torch.from_numpy(visible)
        for group, part in enumerate(parts):
            slot.add(group, ids, part)
        for group in table.visible_group:
            slot.mark(group, ids, seen)
    return slot


def train(table: ParameterTable, seed: int) -> None:
    """A zero step and its correction, then parts by group, then all at once."""
    rng, lr = np.random.default_rng(seed), np.linspace(1e-4, 5e-2, LAYOUT.columns)
    some = np.sort(rng.permutation(N)[:12]).astype(np.int32)
    visible = table.visible_group[0] if table.selective else None
    for t in range(1, 4):
        update, slot = Update(t=t, lr=lr, scale=0.25, visible=visible), filled(table, seed + t)
        table.apply_zero(update, some)
        table.apply_correction(update, some, slot)
        others = np.setdiff1d(table.every_row, some).astype(np.int32)
        table.apply_gradient(update, others, 0, 1, slot)
        table.apply_gradient(update, others, 1, 2, slot)
        table.apply_gradient(update, table.every_row, 0, 2, slot)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 500), selective=st.booleans())
def test_the_same_bits_as_the_hosts(seed: int, selective: bool) -> None:
    host, device = tables(seed, selective)
    train(host, seed)
    with NoHostSync():
        train(device, seed)
    assert device.digest() == host.digest()
    rows = np.arange(0, N, 3, dtype=np.int32)
    mine, theirs = (filled(t, seed).norms(rows, LAYOUT, 0.5) for t in (device, host))
    np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def test_every_row_is_on_the_device_already() -> None:
    _, device = tables(0, False)
    assert device.ids(device.every_row) is device.ids(device.every_row)
    assert device.ids(device.every_row).tolist() == list(range(N))
    device.replace(*(torch.zeros(7, LAYOUT.columns) for _ in range(3)))
    assert device.ids(device.every_row).tolist() == list(range(7))
    with NoHostCopy():
        device.apply_zero(Update(t=1, lr=np.ones(LAYOUT.columns), scale=1.0), device.every_row)


@pytest.mark.parametrize("name", ["barrier", "barrier-planned", "quality", "paper-quality", "quality:groups=off"])
def test_exact_arms_run_on_a_device(name: str) -> None:
    assert device_objection(arm(name)) == ""


@pytest.mark.parametrize("name", ["predicted", "predicted:audit=0", "throughput", "paper-literal", "ddp"])
def test_what_looks_inside_a_step_does_not(name: str) -> None:
    assert device_objection(arm(name))


def test_an_objection_names_what_runs_instead() -> None:
    for one in ARMS.values():
        instead = device_objection(one).partition("use ")[2]
        assert not instead or device_objection(arm(instead)) == ""


def held_tables(seed: int, every: int) -> tuple[ParameterTable, DeviceTable]:
    start = torch.from_numpy(np.random.default_rng(seed).normal(size=(N, HELD_LAYOUT.columns)).astype(np.float32))
    host = ParameterTable(start.clone(), HELD_LAYOUT, hold=every)
    return host, DeviceTable(start.clone(), HELD_LAYOUT, hold=every)


def held_slot(table: ParameterTable, seed: int) -> Slot:
    """A slot with one view's colours and geometry in it; a third of its rows have no gradient."""
    rng = np.random.default_rng(seed)
    slot = table.make_slot(N, table.slot_layout)
    slot.partition([segment("all", table.every_row, (0, 1, 2))])
    rows = np.sort(rng.permutation(N)[:20]).astype(np.int32)
    gradient = rng.normal(size=(20, HELD_LAYOUT.columns)).astype(np.float32) * (rng.random((20, 1)) < 0.7)
    if isinstance(table, DeviceTable):
        slot.add(0, table.ids(rows), torch.from_numpy(gradient[:, :11].copy()))
        slot.add_colours(table.ids(rows), torch.from_numpy(gradient[:, 11:].copy()))
    else:
        slot.add(0, rows, np.ascontiguousarray(gradient[:, :11]))
        slot.add_colours(rows, np.ascontiguousarray(gradient[:, 11:]))
    return slot


def train_held(table: ParameterTable, seed: int, steps: int) -> None:
    """Rows are stepped by zero and corrected, or wait for geometry, colours and the held group apart."""
    rng, lr = np.random.default_rng(seed), np.linspace(1e-4, 5e-2, HELD_LAYOUT.columns)
    for step in range(steps):
        some = np.sort(rng.permutation(N)[:12]).astype(np.int32)
        others = np.setdiff1d(table.every_row, some).astype(np.int32)
        update, slot = table.bind(step, lr, 0.25), held_slot(table, seed + step)
        table.apply_zero(update, some)
        table.apply_correction(update, some, slot)
        for lo, hi in ((0, 1), (1, 3)):
            table.apply_gradient(update, others, lo, hi, slot)
        table.published(update)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 500), every=st.integers(1, 4), steps=st.integers(1, 6))
def test_a_held_group_has_the_bits_of_the_hosts(seed: int, every: int, steps: int) -> None:
    host, device = held_tables(seed, every)
    train_held(host, seed, steps)
    with NoHostSync():
        train_held(device, seed, steps)
    assert device.digest() == host.digest()
    assert host.held is not None and device.held is not None
    again = held_tables(seed, every)[1]
    assert again.held is not None
    again.held.restore(device.held.t, host.held.host_sums())
    assert np.array_equal(again.held.host_sums(), host.held.sums) and again.held.t == host.held.t
    assert (host.held.host_sums().any()) == (steps % every != 0)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 500), selective=st.booleans(), every=st.integers(0, 3))
def test_an_advance_has_the_bits_of_the_hosts_two_passes(seed: int, selective: bool, every: int) -> None:
    """`every` above 0: with a held group, dense only."""
    host, device = held_tables(seed, every) if every else tables(seed, selective)
    lr = np.linspace(1e-4, 5e-2, host.layout.columns)
    for step in range(4):
        slots = [held_slot(t, seed + step) if every else filled(t, seed + step) for t in (host, device)]
        pairs = [(t.bind(2 * step, lr, 0.25), t.bind(2 * step + 1, 2 * lr, 0.25)) for t in (host, device)]
        (before, after), (before_there, after_there) = pairs
        host.apply_correction(before, host.every_row, slots[0])
        host.published(before)
        host.apply_zero(after, host.every_row)
        with NoHostSync():
            device.advance(before_there, slots[1], after_there, device.every_row)
            device.published(before_there)
    assert device.digest() == host.digest()
