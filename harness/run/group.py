"""The ranks of one run: process group, transports, and messages to the supervisor."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from harness.run.seat import CudaSeat, HostSeat, Seat
from harness.run.spec import RunSpec
from odin.comm.gloo import GlooTransport, in_order_group
from odin.comm.link import Link
from odin.comm.stamps import CutBoard, JoinStamps, stamp_folder
from odin.comm.transport import Reduction, SingleRank, Transport

# Segments of a step (two per view of a unit and a few more, chunks of the gate), metadata and statistics, and slack for
# the checks. A stamp is 8 bytes per rank.
COLLECTIVES_PER_STEP = 32
# Added to the priority that the run was started with, so that `nice -n -10 odin-bench …` stays ahead of other work.
COMPUTE_NICE = 5
STARTED_AT_NICE = os.getpriority(os.PRIO_PROCESS, 0) if hasattr(os, "getpriority") else 0
STARTED_AT_PRIORITY = os.sched_getparam(0).sched_priority if hasattr(os, "sched_getparam") else 0


class Group:
    """This rank among its peers."""

    def __init__(self, spec: RunSpec, rank: int) -> None:
        self.spec, self.rank = spec, rank
        self.ranks = spec.config.engine.ranks
        torch.set_num_threads(1)
        engine = spec.config.engine
        patience = timedelta(seconds=engine.timeout_s)
        self.seat: Seat = HostSeat(self._stamped)
        if self.ranks > 1 or engine.cuda:
            store = dist.FileStore(str(spec.rendezvous), self.ranks)
        if engine.cuda:
            self.seat = CudaSeat(dist.PrefixStore("cuda", store), rank, self.ranks, engine.timeout_s)
        if self.ranks > 1:
            dist.init_process_group("gloo", store=store, rank=rank, world_size=self.ranks, timeout=patience)
            self._in_order = in_order_group(store, rank, self.ranks, patience)
            dist.barrier()  # gloo starts its threads on first use

    def close(self) -> None:
        """Leave the process group."""
        if self.ranks > 1:
            dist.destroy_process_group()

    def barrier(self) -> None:
        """Wait for all ranks."""
        if self.ranks > 1:
            dist.barrier()

    def transport(self, name: str, link: Link, steps: int) -> Transport:
        """A transport for one cell; all ranks call this together."""
        return self.seat.transport(name, link, steps)

    def _stamped(self, name: str, link: Link, steps: int) -> Transport:
        """Gloo with fresh join stamps."""
        if self.ranks == 1:
            return SingleRank()
        tag = f"odin-{self.spec.folder.name}-{name.replace(' ', '-')}"
        path = stamp_folder() / tag
        board = path.with_name(f"{tag}-cuts")
        capacity = COLLECTIVES_PER_STEP * steps + 16
        if self.rank == 0:
            JoinStamps.create(path, capacity, self.ranks)
            CutBoard.create(board, steps, self.ranks)
        self.barrier()
        stamps, cuts = JoinStamps(path, capacity, self.ranks), CutBoard(board, steps, self.ranks)
        self.barrier()
        if self.rank == 0:  # every rank holds them open; nothing is left behind however the run ends
            path.unlink()
            board.unlink()
        engine = self.spec.config.engine
        transport = GlooTransport(self._in_order, stamps, cuts, link, Reduction(engine.reduce))
        if engine.padded:
            prefer_communication()  # here, because ordered sums have a thread that is as old as their transport
        return transport

    def most(self, value: float) -> float:
        """Maximum over ranks."""
        tensor = torch.tensor([value], dtype=torch.float64)
        if self.ranks > 1:
            dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        return float(tensor[0])

    def tell(self, **message: object) -> None:
        """Send a message to the supervisor (rank 0 only; others have nothing to add)."""
        if self.rank == 0:
            print(json.dumps(message), file=sys.stdout, flush=True)

    def shared(self, name: str, text: str | None) -> str:
        """Rank 0 gives a text, every rank gets it."""
        path = self.spec.folder / name
        if text is not None:
            _write(path, text)
        self.barrier()
        return path.read_text(encoding="utf-8")


def prefer_communication() -> None:
    """Let every other thread of this process go before the calling one, which computes (Linux; elsewhere nothing
    happens).

    Raw gloo communicates on the cores that compute. On a padded run its threads, and the one that sums in rank order,
    take the few milliseconds they need at once: computing has slack, but an urgent segment of a few kilobytes has to be
    there in nominal time. A thread inherits the priority of its maker, and only a privileged user can raise it again.
    A run that was started under a real-time policy (`chrt --rr 10 odin-bench …`, where other work shares the host)
    stays in it.
    """
    tasks, own = Path("/proc/self/task"), threading.get_native_id()
    for task in tasks.iterdir() if tasks.is_dir() else ():
        with contextlib.suppress(OSError):  # the thread has just ended, or may not be raised
            _prefer(int(task.name), computes=int(task.name) == own)


def _prefer(task: int, *, computes: bool) -> None:
    policy = os.sched_getscheduler(0)
    if policy in (os.SCHED_RR, os.SCHED_FIFO):
        priority = STARTED_AT_PRIORITY + (0 if computes else 1)
        os.sched_setscheduler(task, policy, os.sched_param(priority))
    else:
        os.setpriority(os.PRIO_PROCESS, task, STARTED_AT_NICE + (COMPUTE_NICE if computes else 0))


def _write(path: Path, text: str) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
