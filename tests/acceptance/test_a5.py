"""A5: rank 1 of 3 is killed at step 10."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import psutil
import pytest

from harness.cli import main
from harness.store.schema import Status
from harness.store.store import CellStore
from tests.faults.forked import Forked

TIMEOUT = 600.0  # so that a busy machine may start its ranks at very different moments
WORDS = ["scene=rooms?views=16&width=48&height=36&points=300", "test_every=0", "ranks=3", "views_per_unit=1",
         "reduce=ordered", "arms=[barrier]", "mirrored=false", "link=none", "padded=false", "realtime=false",
         f"timeout_s={TIMEOUT:g}"]  # fmt: skip


class Watch:
    """Notes when the first process and when the last one has gone."""

    def __init__(self, started: list[Forked], count: int) -> None:
        self.first = self.last = 0.0
        self._started, self._count = started, count
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self.last:
            alive = [_alive(f.pid) for f in list(self._started)]
            if len(alive) == self._count and not all(alive):
                self.first = self.first or time.monotonic()
                if not any(alive):
                    self.last = time.monotonic()
            time.sleep(0.02)

    def took(self) -> float:
        self._thread.join(60)
        return self.last - self.first


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_killed_rank(tmp_path: Path, forked: list[Forked], capsys: pytest.CaptureFixture[str]) -> None:
    command = ["reproduce", "headline", f"out={tmp_path}", *WORDS]
    watch = Watch(forked, 3)
    assert main([*command, "steps=20", "faults=[kill:rank=1:step=10]"]) == 1
    assert watch.took() < 10  # nobody has to wait for a timeout
    told = capsys.readouterr().err.strip().splitlines()[-1]
    assert told.startswith("Rank 1 was the first to go, after 10 steps of barrier #1: it was ended by SIGKILL")
    (failed,) = CellStore(tmp_path).results()
    assert (failed.status, failed.reason) == (Status.FAILED, told)
    assert main([*command, "steps=3"]) == 0
    assert sorted(r.status for r in CellStore(tmp_path).results()) == [Status.DONE, Status.FAILED]
