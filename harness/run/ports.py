"""The fault `port`: other programs have the ports at which ranks of several nodes would meet."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from harness.config.faults import read_fault
from odin.errors import InputError


def refuse_without_ports(faults: Sequence[str]) -> None:
    """Raise InputError where ports are to be taken and no rank uses one."""
    for word in faults:
        if read_fault(word).kind == "port":
            raise InputError(
                f"faults={word} has nothing to take: these ranks meet at no port that was named. It is a fault of "
                "ranks on several nodes whose cluster profile names ports; ranks of one machine meet in a file."
            )


@contextmanager
def taken(faults: Sequence[str], ports: Sequence[int]) -> Iterator[None]:
    """Hold these ports where the faults ask for it. Raises InputError where there are none to hold."""
    with ExitStack() as held:
        if any(read_fault(word).kind == "port" for word in faults):
            if not ports:
                refuse_without_ports(faults)
            for port in ports:
                with suppress(OSError):  # somebody has it already
                    listener = held.enter_context(socket.socket())
                    listener.bind(("0.0.0.0", port))
                    listener.listen()
        yield
