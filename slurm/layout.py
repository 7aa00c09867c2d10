"""Where the ranks of a pair lie; imports no torch, because `submit` and the profiles ask."""

from __future__ import annotations

from dataclasses import dataclass

TCP, FILE = "tcp", "file"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How the ranks of a pair lie on nodes; plain data, as it is pickled into the job.

    nodes, per_node: ranks fill nodes in order
    cpus:       cores of a rank
    rendezvous: tcp, or file for a FileStore in the folder of records
    ports:      that the store may be served on; empty lets the system choose a free one
    """

    nodes: int
    per_node: int
    cpus: int
    rendezvous: str = TCP
    ports: tuple[int, ...] = ()
