"""Ranks on several nodes: how they meet, and a timeline on one clock."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist

from harness.run.execute import Executed
from odin.comm.hosts import HostClock
from odin.errors import RunError

_ANY_PORT = 9  # nothing is sent there: connecting a datagram socket only looks up the way


def source_address(host: str) -> str:
    """The address of this machine that `host` is reached from. Raises OSError where the name is not known."""
    family, kind, _, _, place = socket.getaddrinfo(host, _ANY_PORT, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(place)
        return str(probe.getsockname()[0])


def interface_of(address: str) -> str:
    """The network interface that has this address. Raises RunError where none has."""
    import psutil

    for name, addresses in psutil.net_if_addrs().items():
        if any(one.address.partition("%")[0] == address for one in addresses):
            return name
    raise RunError(f"No network interface of {socket.gethostname()} has the address {address}. Set GLOO_SOCKET_IFNAME.")


def serve_store(ports: Sequence[int] = (0,)) -> dist.TCPStore:
    """The store at which ranks meet, served by this process on the first port that is free; 0 lets the system choose
    one, which cannot clash. Raises RunError where all are taken."""
    taken = []
    for port in ports:
        try:
            return dist.TCPStore("0.0.0.0", port, is_master=True, wait_for_workers=False)
        except (RuntimeError, OSError) as error:
            taken.append(f"{port} ({' '.join(str(error).split())[:120]})")
    raise RunError(f"No port is free for the ranks to meet at; tried {'; '.join(taken)}. Give the profile other ports.")


def join_store(meeting: str, ranks: int, patience: timedelta, file: Path) -> dist.Store:
    """The store at ADDRESS:PORT, or the one in `file` where there is no port; gloo takes the interface that leads to
    the address unless the user has named one. Raises RunError where the store cannot be reached."""
    address, _, port = meeting.rpartition(":")
    with contextlib.suppress(OSError):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface_of(source_address(address)))
    if not port:
        return dist.FileStore(str(file), ranks)
    try:
        return dist.TCPStore(address, int(port), ranks, is_master=False, timeout=patience, wait_for_workers=False)
    except (RuntimeError, OSError) as error:
        raise RunError(
            f"{socket.gethostname()} does not reach the place where the ranks meet, {meeting} "
            f"({' '.join(str(error).split())[:200]}). A firewall between nodes may leave some ports open: name them as "
            "ports: in the cluster profile, or let ranks find each other in the folder of records: rendezvous: file."
        ) from error


def on_one_clock(executed: Executed, clock: HostClock) -> Executed:
    """What a rank saw, in moments of rank 0's clock."""
    entries = [
        replace(e, start=clock.common(e.start), end=clock.common(e.end), last_join=clock.common(e.last_join))
        for e in executed.entries
    ]
    records = [replace(r, start=clock.common(r.start), end=clock.common(r.end)) for r in executed.records]
    return replace(executed, entries=entries, records=records, origin=clock.common(executed.origin))
