"""Where a rank sits: its own GPU, or one paragraph."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from harness.run.seat import LOCAL_RANK, CudaSeat, HostSeat, own_device
from odin.comm.transport import SingleRank
from odin.errors import InputError
from odin.keeper import Keeper, PaddedKeeper
from pipelines.backend import CPU


@pytest.fixture(autouse=True)
def without_a_launcher(monkeypatch) -> None:
    for name in LOCAL_RANK:
        monkeypatch.delenv(name, raising=False)


def test_each_rank_has_the_gpu_of_its_number() -> None:
    assert [own_device(rank, 3, 3) for rank in range(3)] == [torch.device("cuda", k) for k in range(3)]


@pytest.mark.parametrize("name", LOCAL_RANK)
def test_on_many_hosts_the_number_on_the_host_counts(name: str, monkeypatch) -> None:
    monkeypatch.setenv(name, "1")
    assert own_device(5, 8, 4) == torch.device("cuda", 1)


def test_a_rank_without_a_gpu_is_one_paragraph() -> None:
    with pytest.raises(InputError, match=r"rank 2 of 4 is number 2 .* sees 2 GPU\(s\)\. Lower engine\.ranks"):
        own_device(2, 4, 2)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device here")
def test_without_a_device_nothing_is_connected() -> None:
    with pytest.raises(InputError, match=r"sees 0 GPU\(s\)"):
        CudaSeat(dist.HashStore(), 0, 1, 5.0)


def test_the_host_is_a_seat() -> None:
    seat = HostSeat(lambda name, link, steps: SingleRank())
    assert seat.backend is CPU and seat.burn_in == ()
    assert type(seat.keeper(SingleRank(), None)) is Keeper
    assert isinstance(seat.keeper(SingleRank(), lambda phase, work: 0.0), PaddedKeeper)
