"""Starting ranks: what cannot be started leaves nothing behind."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path
from queue import SimpleQueue

import psutil
import pytest

from harness.config import expand, load
from harness.run import headline, launch
from harness.run.launch import Here
from harness.run.spec import RunSpec
from harness.store.schema import Status
from harness.store.store import CellStore
from odin.comm.stamps import JoinStamps
from odin.errors import RunError


def test_ranks_that_were_started_end_when_another_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen] = []

    def start(spec: RunSpec, rank: int) -> subprocess.Popen:
        if rank == 1:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        started.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True))
        return started[-1]

    monkeypatch.setattr(launch, "_start", start)
    spec = RunSpec(config=load(["link=none", "padded=false"]), cells=(("barrier", 0),), folder=tmp_path)
    with pytest.raises(RunError, match="The process of rank 1 could not be started: Cannot allocate memory"):
        Here().start(spec)
    assert [process.returncode for process in started] == [-15]


def test_a_folder_that_takes_no_files_is_one_paragraph(tmp_path: Path) -> None:
    spec = RunSpec(config=load(["link=none", "padded=false"]), cells=(("barrier", 0),), folder=tmp_path / "absent")
    with pytest.raises(RunError, match=r"Cannot write in .*absent: No such file.*Nothing was started"):
        launch.launch(spec, print)


def test_ranks_that_end_well_without_a_record_have_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load(
        ["scene=rooms?views=16&width=48&height=36&points=300", f"out={tmp_path}", "link=none", "padded=false"]
    )
    monkeypatch.setattr(headline, "launch", lambda *_: None)
    cells, store = expand(config), CellStore(tmp_path)
    ids, _ = headline.identify(config, cells)
    with pytest.raises(RunError, match=r"ended without an error, but have not recorded barrier #1.*scratch"):
        headline.run_cells(config, cells, ids, store)
    (failed,) = store.results()
    assert (failed.status, failed.cell_id) == (Status.FAILED, ids[0])


def test_boards_of_killed_ranks_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their own run's, and old ones of runs whose supervisor was killed too; not those of a run that is starting."""
    monkeypatch.setattr("odin.comm.stamps.SHARED_MEMORY", tmp_path)
    own, other, old = (tmp_path / f"odin-{name}-cell-0" for name in ("run", "running", "old"))
    for path in (own, other, old):
        JoinStamps.create(path, 4, 2)
    hours_ago = time.time() - 7200
    os.utime(old, (hours_ago, hours_ago))
    spec = RunSpec(config=load(["link=none", "padded=false"]), cells=(("barrier", 0),), folder=tmp_path / "run")
    with launch._no_stamps(spec):
        pass
    assert list(tmp_path.iterdir()) == [other]


def test_what_a_killed_rank_started_ends_too(tmp_path: Path) -> None:
    """A compiler, or git: it is in the rank's group, whose leader has gone."""
    said = tmp_path / "pid"
    start = "import os, subprocess; pid = subprocess.Popen(['sleep', '600']).pid; "
    tell = f"open({str(said)!r}, 'w').write(str(pid)); os.kill(os.getpid(), 9)"
    rank = subprocess.Popen([sys.executable, "-c", start + tell], start_new_session=True)
    rank.wait()
    pid = int(said.read_text())
    assert psutil.pid_exists(pid)
    with launch._ranks([rank]):
        pass
    psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=10)
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_only_objects_are_messages() -> None:
    """A library of rank 0 may print a number, which is valid JSON."""
    lines: SimpleQueue = SimpleQueue()
    for line in ("5", "[1]", "words", '{"stage": "done"}'):
        lines.put(line)
    heard: list[dict] = []
    assert launch._deliver(lines, heard.append)
    assert heard == [{"stage": "done"}]
