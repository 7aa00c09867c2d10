"""A node is lost, jobs are preempted, a time limit strikes in the middle of a study: in the end each pair is done once.

With and without accounting, because states then come from other commands.
"""

from __future__ import annotations

import contextlib
import signal
import time
from pathlib import Path

import psutil
import pytest

from harness.cli import main
from slurm.commands import submit_app
from slurm.states import job_states
from slurm.submission import submissions
from tests.slurm.clusters import TINY, assert_all_done_once, command, connected, finished, logs, words

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
PATIENCE = 1500.0
both = pytest.mark.parametrize("accounting", [False, True], ids=["scontrol", "sacct"])


def running_on(nodes: set[str], out: Path) -> None:
    """Wait until a pair runs on each of these nodes and its ranks have started on its cells."""
    (made,) = submissions(out)
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        states = job_states(made.jobs.values()).values()
        there = {s.nodes for s in states if s.state == "RUNNING"} >= nodes
        if there and ranks(out) and len(list(out.glob("cells/*/pair"))) >= 4 * len(nodes):
            return
        time.sleep(0.5)
    pytest.fail(logs(out))


def ranks(out: Path) -> list[psutil.Process]:
    """Rank processes whose records go there."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.cmdline())
            if "harness.run.worker" in line and str(out) in line:
                found.append(process)
    return found


@both
def test_a_lost_node(accounting: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    out = tmp_path / "runs"
    with connected(tmp_path / "cluster", monkeypatch, accounting=accounting) as cluster:
        assert command(submit_app, *words(out, 6, 1)) == 0
        running_on({"n1", "n2"}, out)
        cluster.kill_node("n2")
        printed = finished(out, capsys, PATIENCE)
        assert "NODE_FAIL" in printed, printed
        assert_all_done_once(out)
    again = submissions(out)
    assert [s.attempt for s in again] == [1, 2]
    assert len(again[1].jobs) == 1
    assert again[0].folder != again[1].folder


@both
def test_preempted_pairs(accounting: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    out = tmp_path / "runs"
    with connected(tmp_path / "cluster", monkeypatch, accounting=accounting) as cluster:
        assert command(submit_app, *words(out, 6, 1)) == 0
        running_on({"n1", "n2"}, out)
        urgent = ["-p", "urgent", "-N2", "--exclusive", "-o", "/dev/null"]
        cluster.run("sbatch", *urgent, "--wrap", "sleep 2")
        printed = finished(out, capsys, PATIENCE)
        assert printed.count("PREEMPTED") == 2, printed
        assert_all_done_once(out)
    assert [(s.attempt, len(s.jobs)) for s in submissions(out)] == [(1, 2), (2, 2)]


@both
def test_a_time_limit(accounting: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """One of two pairs hangs, here because its rank is stopped, and runs into its limit."""
    out = tmp_path / "runs"
    with connected(tmp_path / "cluster", monkeypatch, accounting=accounting) as cluster:
        assert command(submit_app, *words(out, 6, 1)) == 0
        running_on({"n1"}, out)
        stopped = ranks(out)[0]
        stopped.send_signal(signal.SIGSTOP)
        job = stopped.environ()["SLURM_JOB_ID"]
        cluster.run("scontrol", "update", f"JobId={job}", "TimeLimit=1")
        printed = finished(out, capsys, PATIENCE)
        assert printed.count("TIMEOUT") == 1, printed
        assert_all_done_once(out)
    assert [(s.attempt, len(s.jobs)) for s in submissions(out)] == [(1, 2), (2, 1)]


def test_a_pair_that_always_times_out_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """After its attempts the reason stands in the status; nothing is sent for ever."""
    out = tmp_path / "runs"
    profile = tmp_path / "minute.yaml"
    profile.write_text("hours: 0.01\nattempts: 2\n")
    study = tmp_path / "long.yaml"
    study.write_text(
        f"set: {{scene: '{TINY}', link: none, padded: false, ranks: 1, steps: 100000}}\npairs: [[barrier, quality]]\n"
    )
    with connected(tmp_path / "cluster", monkeypatch):
        assert command(submit_app, str(study), f"cluster={profile}", f"out={out}") == 0
        printed = finished(out, capsys, PATIENCE)
        assert printed.count("TIMEOUT") == 2, printed
    assert [s.attempt for s in submissions(out)] == [1, 2]
    assert main(["status", str(out)]) == 0
    assert "ended as TIMEOUT (attempt 2 of 2)" in capsys.readouterr().out
