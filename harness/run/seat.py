"""Where a rank sits: the processor it computes on, and what its transport and its time keeping are there.

The rest of a run, the policies included, does not ask.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

import torch
import torch.distributed as dist

from harness.run.execute import Executed
from harness.run.spread import on_one_clock
from odin.comm.hosts import HostClock
from odin.comm.link import Link
from odin.comm.spread import SpreadKeeper, SpreadTransport
from odin.comm.transport import Transport
from odin.errors import InputError
from odin.keeper import Keeper, PaddedKeeper, Price
from pipelines.backend import CPU, Backend, cuda_backend, own_backend

# What batch systems and launchers call the number of a process on its host.
LOCAL_RANK = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")


MakeTransport = Callable[[str, Link, int], Transport]


class Seat(Protocol):
    """One rank's processor.

    burn_in: arms that run a few steps before the first cell, because kernels are loaded, or compiled, on first use
    """

    backend: Backend
    burn_in: tuple[str, ...]

    def transport(self, name: str, link: Link, steps: int) -> Transport:
        """A transport for one cell; all ranks call this together."""
        ...

    def keeper(self, transport: Transport, price: Price | None) -> Keeper:
        """Time keeping of a cell; padded to nominal times if there are any."""
        ...

    def complete(self, executed: Executed, transport: Transport, keeper: Keeper) -> Executed:
        """What this rank saw of a cell, with what only all ranks together know; all call it after the cell. Its moments
        are then those of one clock for all ranks."""
        ...


class HostSeat:
    """A core of the host; its kernels are compiled by `pipelines.render.cpu.warm_up`."""

    backend = CPU
    burn_in: tuple[str, ...] = ()

    def __init__(self, make: MakeTransport) -> None:
        self._make = make

    def transport(self, name: str, link: Link, steps: int) -> Transport:
        """What the group makes."""
        return self._make(name, link, steps)

    def keeper(self, transport: Transport, price: Price | None) -> Keeper:
        """The wall clock, or nominal times on it."""
        return PaddedKeeper(price) if price is not None else Keeper()

    def complete(self, executed: Executed, transport: Transport, keeper: Keeper) -> Executed:
        """Complete already: ranks of one host share its clock and their stamps."""
        return executed


class SpreadSeat(HostSeat):
    """A core of one of several hosts. Nothing is padded there (`harness.run.emulation.refuse_emulation`)."""

    def keeper(self, transport: Transport, price: Price | None) -> Keeper:
        """The wall clock."""
        assert price is None
        return SpreadKeeper()

    def complete(self, executed: Executed, transport: Transport, keeper: Keeper) -> Executed:
        """Enter when the others joined, on rank 0's clock."""
        assert isinstance(transport, SpreadTransport) and isinstance(keeper, SpreadKeeper)
        transport.settle()
        whole = replace(executed, entries=keeper.completed(executed.entries))
        return on_one_clock(whole, transport.clock)


class CudaSeat:
    """A GPU of the host: one per rank, with its own streams, clock and NCCL communicators, which all cells share.

    All ranks make theirs together. Raises InputError where a rank has no GPU of its own, or gsplat is missing.

    store: what the ranks meet at
    hosts: one clock for ranks of several hosts
    own:   the pipeline renders by itself, without gsplat
    """

    burn_in: tuple[str, ...] = ("barrier", "quality")

    def __init__(
        self,
        store: dist.Store,
        rank: int,
        ranks: int,
        patience_s: float,
        hosts: HostClock | None = None,
        *,
        own: bool = False,
    ) -> None:
        from odin.comm.nccl import connect
        from odin.device.clock import EventClock
        from odin.device.streams import CudaStreams

        self._store, self._rank, self._ranks, self._patience = store, rank, ranks, patience_s
        self._hosts = hosts
        device = own_device(rank, ranks, torch.cuda.device_count() if torch.cuda.is_available() else 0)
        torch.cuda.set_device(device)
        streams = CudaStreams(device)
        self.backend = own_backend(streams) if own else cuda_backend(streams)
        self._clock = EventClock(streams)
        self._communicators = connect(store, rank, ranks, device, timedelta(seconds=patience_s))

    def transport(self, name: str, link: Link, steps: int) -> Transport:
        """NCCL for one cell, with a watchdog of its own; the link is the real one."""
        from odin.comm.nccl import NcclTransport
        from odin.comm.watchdog import Watchdog

        store = dist.PrefixStore(f"odin-{name.replace(' ', '-')}", self._store)
        abort = self._communicators.abort
        watchdog = Watchdog(store, self._rank, self._ranks, patience=self._patience, abort=abort)
        return NcclTransport(self._rank, self._ranks, self._communicators, self._clock, watchdog, self._hosts)

    def keeper(self, transport: Transport, price: Price | None) -> Keeper:
        """Events of the device; they are read where everything is published."""
        from odin.comm.nccl import NcclTransport
        from odin.device.keeper import StreamKeeper

        assert isinstance(transport, NcclTransport) and price is None
        return StreamKeeper(self._clock, transport.settle)

    def complete(self, executed: Executed, transport: Transport, keeper: Keeper) -> Executed:
        """Complete already; on several hosts, in moments of one clock."""
        if self._hosts is None:
            return executed
        self._hosts.anchor()
        return on_one_clock(executed, self._hosts)


def own_device(rank: int, ranks: int, devices: int) -> torch.device:
    """The GPU of a rank: that of its number on this host. Raises InputError where there is none left for it."""
    local = next((int(os.environ[name]) for name in LOCAL_RANK if os.environ.get(name, "").isdigit()), rank)
    if local >= devices:
        raise InputError(
            f"engine.device=cuda gives every rank a GPU of its own, and rank {rank} of {ranks} is number {local} on a "
            f"host where torch sees {devices} GPU(s). Lower engine.ranks to what the host has, or make more of them "
            "visible (CUDA_VISIBLE_DEVICES)."
        )
    return torch.device("cuda", local)
