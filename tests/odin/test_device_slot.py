"""The slot of a device: the partition and the bits of the host's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from odin.device.slot import DeviceSlot
from odin.slot import GradientSlot
from tests.odin.sync import NoHostCopy, NoHostSync
from tests.odin.test_rows import LAYOUT, segment

CPU = torch.device("cpu")


def both_slots(rows: int, seed: int, to: torch.device) -> tuple[GradientSlot, DeviceSlot]:
    """The same three views added under the same partition."""
    rng, ids = np.random.default_rng(seed), np.arange(rows, dtype=np.int32)
    cut = rng.random(rows) < 0.5
    specs = [
        segment("urgent", ids[cut], (0, 1)),
        segment("colours", ids[~cut], (1,)),
        segment("geometry", ids[~cut], (0,)),
    ]
    host, device = GradientSlot(rows, LAYOUT), DeviceSlot(rows, LAYOUT, to)
    device.values.fill_(7.0)  # left over from the slot's last owner
    host.partition(specs)
    device.partition(specs)
    for _ in range(3):
        touched = np.sort(rng.permutation(rows)[: rng.integers(0, rows + 1)]).astype(np.int32)
        scale = 10.0 ** rng.uniform(-42, 2, (len(touched), 1))  # denormals too
        for group, width in ((0, 11), (1, 48)):
            gradient = (rng.normal(size=(len(touched), width)) * scale).astype(np.float32)
            host.add(group, touched, gradient)
            device.add(group, torch.from_numpy(touched.astype(np.int64)).to(to), torch.from_numpy(gradient).to(to))
    return host, device


def assert_equal_slots(host: GradientSlot, device: DeviceSlot) -> None:
    assert device.values.cpu().numpy().tobytes() == host.values.tobytes()
    assert device.offsets.cpu().numpy().tobytes() == host.offsets.tobytes()
    assert device.dense().cpu().numpy().tobytes() == host.dense().tobytes()
    for a, b in zip(device.segments, host.segments, strict=True):
        assert (a.name, a.start, a.stop) == (b.name, b.start, b.stop)
        assert device.slice(a).cpu().numpy().tobytes() == host.slice(b).numpy().tobytes()


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(1, 30), seed=st.integers(0, 1000))
def test_the_same_slot_as_on_the_host(rows: int, seed: int) -> None:
    assert_equal_slots(*both_slots(rows, seed, CPU))


def test_a_slice_shares_storage() -> None:
    _, slot = both_slots(10, 0, CPU)
    slot.slice(slot.segments[0]).fill_(3.0)
    assert (slot.values[: slot.segments[0].stop] == 3.0).all()


def test_a_partition_with_a_hole_is_refused() -> None:
    slot = DeviceSlot(4, LAYOUT, CPU)
    with pytest.raises(AssertionError, match="segments cover"):
        slot.partition([segment("some", np.arange(3, dtype=np.int32), (0, 1))])


def every_call(to: torch.device) -> None:
    slot = DeviceSlot(20, LAYOUT, to)
    rows = torch.arange(20, device=to)
    every = np.arange(20, dtype=np.int32)
    slot.partition([segment("urgent", every[:8], (0, 1)), segment("rest", every[8:], (0, 1))])
    slot.add(1, rows[::2], torch.ones((10, 48), device=to))
    slot.slice(slot.segments[1])


def test_the_host_never_waits(monkeypatch) -> None:
    with NoHostSync(), NoHostCopy():
        every_call(CPU)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)  # needs a real device
    with FakeTensorMode():
        every_call(torch.device("cuda", 0))
