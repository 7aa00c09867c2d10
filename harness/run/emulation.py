"""What ranks on several nodes cannot have; imports no torch, because submission asks."""

from __future__ import annotations

from odin.errors import InputError

NO_LINK = "none"


def refuse_emulation(*, padded: bool, link: str, nodes: int) -> None:
    """Raise InputError where ranks on several nodes would be padded or share an emulated link."""
    if nodes > 1 and (padded or link != NO_LINK):
        raise InputError(
            f"The ranks of a pair on {nodes} nodes cannot be padded or share an emulated link (padded="
            f"{str(padded).lower()} link={link}): both follow stamps in the memory of one host (D§7). Measure the real "
            "network with padded=false link=none, or keep all ranks of a pair on one node: leave ranks_per_node out of "
            "the cluster profile."
        )
