"""Ranks as processes on a real gloo group, forked from a server that has imported torch once for all tests."""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from odin.comm.gloo import GlooTransport, in_order_group
from odin.comm.link import UNSHAPED, Link
from odin.comm.stamps import CutBoard, JoinStamps
from odin.comm.transport import Reduction

PATIENCE = 60.0


class Ranks:
    """One rank's view of its group; what `main` gets."""

    def __init__(self, rank: int, ranks: int, folder: Path) -> None:
        self.rank, self.ranks, self.folder = rank, ranks, folder
        patience = timedelta(seconds=PATIENCE)
        store = dist.FileStore(str(folder / "rendezvous"), ranks)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks, timeout=patience)
        self.group = in_order_group(store, rank, ranks, patience)

    def transport(self, name: str, reduction: Reduction, link: Link = UNSHAPED) -> GlooTransport:
        """A transport with stamps of its own; all ranks call this together."""
        path = self.folder / f"stamps-{name}"
        if self.rank == 0:
            JoinStamps.create(path, 64, self.ranks)
            CutBoard.create(self.folder / f"cuts-{name}", 8, self.ranks)
        dist.barrier()
        cuts = CutBoard(self.folder / f"cuts-{name}", 8, self.ranks)
        return GlooTransport(self.group, JoinStamps(path, 64, self.ranks), cuts, link, reduction)


Main = Callable[[Ranks], dict]


def _child(main: Main, rank: int, ranks: int, folder: Path) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    try:
        here = Ranks(rank, ranks, folder)
        torch.save(main(here), folder / f"result-{rank}.pt")
        dist.barrier()
        dist.destroy_process_group()
    except BaseException:
        (folder / f"error-{rank}.txt").write_text(traceback.format_exc())
        raise


def run_processes(ranks: int, main: Main, folder: Path) -> list[dict]:
    """What `main`, a function of a test module, returns on every rank, in rank order; fails with the first error."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.odin.processes"])
    processes = [context.Process(target=_child, args=(main, rank, ranks, folder)) for rank in range(ranks)]
    for process in processes:
        process.start()
    deadline = time.monotonic() + 2 * PATIENCE
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
    late = [process for process in processes if process.exitcode is None]
    for process in late:
        process.kill()
        process.join()
    errors = [path.read_text() for path in sorted(folder.glob("error-*.txt"))]
    assert not errors, errors[0]
    assert not late, f"{len(late)} rank(s) did not end"
    return [torch.load(folder / f"result-{rank}.pt") for rank in range(ranks)]
