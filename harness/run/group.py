"""The ranks of one run: process group, transports, and messages to the supervisor."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from harness.run.emulation import refuse_emulation
from harness.run.priority import ORDINARY, prefer_communication
from harness.run.seat import CudaSeat, HostSeat, Seat, SpreadSeat
from harness.run.spec import RunSpec
from harness.run.spread import join_store
from harness.run.telling import tell
from odin.comm.cuts import StoreCuts
from odin.comm.gloo import GlooTransport, in_order_group
from odin.comm.hosts import HostClock, round_trips
from odin.comm.link import Link
from odin.comm.spread import SpreadTransport
from odin.comm.stamps import CutBoard, JoinStamps, stamp_folder
from odin.comm.transport import Reduction, SingleRank, Transport

# Segments of a step (two per view of a unit and a few more, chunks of the gate), metadata and statistics, and slack for
# the checks. A stamp is 8 bytes per rank.
COLLECTIVES_PER_STEP = 32

JUDGED = timedelta(days=1)  # a rank whose supervisor has gone ends long before


class Group:
    """This rank among its peers.

    priority: what the scheduler was told about this rank, in words for the record
    hosts:    one clock for ranks on several nodes; None where they share one
    """

    def __init__(self, spec: RunSpec, rank: int) -> None:
        self.spec, self.rank = spec, rank
        self.ranks = spec.config.engine.ranks
        self.priority = ORDINARY
        torch.set_num_threads(1)
        engine = spec.config.engine
        patience = timedelta(seconds=engine.timeout_s)
        spread = spec.nodes > 1 and self.ranks > 1
        if spread:
            refuse_emulation(padded=engine.padded, link=spec.config.link.name, nodes=spec.nodes)
        self.hosts = HostClock(round_trips) if spread else None
        self.seat: Seat = SpreadSeat(self._spread) if spread else HostSeat(self._stamped)
        if self.ranks > 1 or engine.cuda:
            store = self._store = self._meet(patience)
        if self.ranks > 1:
            dist.init_process_group("gloo", store=store, rank=rank, world_size=self.ranks, timeout=patience)
            self._in_order = in_order_group(store, rank, self.ranks, patience)
            dist.barrier()  # gloo starts its threads on first use
        if engine.cuda:
            cuda = dist.PrefixStore("cuda", store)
            own = spec.config.pipeline.source == "fork"
            self.seat = CudaSeat(cuda, rank, self.ranks, engine.timeout_s, self.hosts, own=own)

    def _meet(self, patience: timedelta) -> dist.Store:
        if self.spec.meeting:
            return join_store(self.spec.meeting, self.ranks, patience, self.spec.rendezvous)
        return dist.FileStore(str(self.spec.rendezvous), self.ranks)

    def close(self) -> None:
        """Leave the process group."""
        if self.ranks > 1:
            dist.destroy_process_group()

    def barrier(self) -> None:
        """Wait for all ranks."""
        if self.ranks > 1:
            dist.barrier()

    def judged(self, what: str) -> None:
        """Wait for rank 0, which evaluates or writes `what`, a name used once: longer than a collective may take, for
        that is the supervisor's to judge."""
        if self.ranks > 1:
            if self.rank == 0:
                self._store.set(f"judged {what}", "1")
            self._store.wait([f"judged {what}"], JUDGED)

    def transport(self, name: str, link: Link, steps: int) -> Transport:
        """A transport for one cell; all ranks call this together."""
        return self.seat.transport(name, link, steps)

    def _stamped(self, name: str, link: Link, steps: int) -> Transport:
        """Gloo with fresh join stamps."""
        if self.ranks == 1:
            return SingleRank()
        tag = f"{self.spec.stamps}{name.replace(' ', '-')}"
        path = stamp_folder() / tag
        board = path.with_name(f"{tag}-cuts")
        capacity = COLLECTIVES_PER_STEP * steps + 16
        if self.rank == 0:
            JoinStamps.create(path, capacity, self.ranks)
            CutBoard.create(board, steps, self.ranks)
        self.barrier()
        stamps, cuts = JoinStamps(path, capacity, self.ranks), CutBoard(board, steps, self.ranks)
        self.barrier()
        if self.rank == 0:  # every rank holds them open; nothing is left behind however the run ends from here on
            path.unlink()
            board.unlink()
        engine = self.spec.config.engine
        reduction, patience = Reduction(engine.reduce), engine.timeout_s
        transport = GlooTransport(self._in_order, stamps, cuts, link, reduction, patience)
        if engine.padded:
            # Here, because ordered sums have a thread that is as old as their transport.
            self.priority = prefer_communication(realtime=engine.realtime)
        return transport

    def _spread(self, name: str, link: Link, steps: int) -> Transport:
        """Gloo between hosts, over the real network."""
        assert self.hosts is not None and not link.shaped
        cuts = StoreCuts(dist.PrefixStore(f"cuts {name}", self._store), self.rank, self.ranks)
        return SpreadTransport(self._in_order, cuts, self.hosts, Reduction(self.spec.config.engine.reduce))

    def clock_error(self) -> float | None:
        """Seconds by which moments of ranks on different nodes may be wrong; all ranks ask together."""
        return None if self.hosts is None else self.most(self.hosts.uncertainty)

    def most(self, value: float) -> float:
        """Maximum over ranks."""
        tensor = torch.tensor([value], dtype=torch.float64)
        if self.ranks > 1:
            dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        return float(tensor[0])

    def tell(self, **message: object) -> None:
        """Send a message to the supervisor (rank 0 only; others have nothing to add)."""
        if self.rank == 0:
            tell(**message)

    def shared(self, name: str, text: str | None) -> str:
        """Rank 0 gives a text, every rank gets it."""
        path = self.spec.folder / name
        if text is not None:
            _write(path, text)
        self.barrier()
        return path.read_text(encoding="utf-8")


def _write(path: Path, text: str) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
