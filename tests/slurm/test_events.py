"""A node is lost, jobs are preempted, a time limit strikes in the middle of a study: in the end each pair is done once.

With and without accounting, because states then come from other commands.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from harness.cli import main
from slurm.commands import submit_app
from slurm.submission import submissions
from slurm.testcluster import TestCluster
from tests.slurm.clusters import TINY, assert_all_done_once, command, connected, finished, logs, words

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
PATIENCE = 1500.0
both = pytest.mark.parametrize("accounting", [False, True], ids=["scontrol", "sacct"])


@contextlib.contextmanager
def caught(folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch, *, accounting: bool) -> Iterator[Caught]:
    """A study of two pairs on two nodes of a core each, its ranks stopped at their start: so none can be too quick."""
    with connected(folder, monkeypatch, cpus=1, accounting=accounting) as cluster:
        assert command(submit_app, *words(out, 4, 1)) == 0
        ranks: dict[str, psutil.Process] = {}
        deadline = time.monotonic() + 600
        while set(ranks) != {"n1", "n2"}:
            assert time.monotonic() < deadline, f"{ranks}\n{logs(out)}"
            for process in psutil.process_iter():
                with contextlib.suppress(psutil.Error):
                    line = " ".join(process.cmdline())
                    if "harness.run.worker" in line and str(out) in line:
                        process.send_signal(signal.SIGSTOP)
                        ranks[process.environ()["SLURMD_NODENAME"]] = process
            time.sleep(0.2)
        yield Caught(cluster, ranks)


class Caught(NamedTuple):
    """A cluster, and the stopped rank of the pair on each node."""

    cluster: TestCluster
    ranks: dict[str, psutil.Process]


@both
def test_a_lost_node(accounting: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    out = tmp_path / "runs"
    with caught(tmp_path / "cluster", out, monkeypatch, accounting=accounting) as (cluster, ranks):
        cluster.kill_node("n2")
        ranks["n1"].send_signal(signal.SIGCONT)
        printed = finished(out, capsys, PATIENCE)
        assert printed.count("NODE_FAIL") == 1, printed
        assert_all_done_once(out)
    again = submissions(out)
    assert [(s.attempt, len(s.jobs)) for s in again] == [(1, 2), (2, 1)]
    assert again[0].folder != again[1].folder


@both
def test_preempted_pairs(accounting: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    out = tmp_path / "runs"
    with caught(tmp_path / "cluster", out, monkeypatch, accounting=accounting) as (cluster, _):
        urgent = ["-p", "urgent", "-N2", "--exclusive", "-o", "/dev/null"]
        cluster.run("sbatch", *urgent, "--wrap", "sleep 2")
        printed = finished(out, capsys, PATIENCE)
        assert printed.count("PREEMPTED") == 2, printed
        assert_all_done_once(out)
    assert [(s.attempt, len(s.jobs)) for s in submissions(out)] == [(1, 2), (2, 2)]


@both
def test_a_time_limit(accounting: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """One of two pairs hangs and runs into its limit."""
    out = tmp_path / "runs"
    with caught(tmp_path / "cluster", out, monkeypatch, accounting=accounting) as (cluster, ranks):
        inside = ranks["n2"].environ()  # the id of an array's last element is also that of the whole array
        job = f"{inside['SLURM_ARRAY_JOB_ID']}_{inside['SLURM_ARRAY_TASK_ID']}"
        cluster.run("scontrol", "update", f"JobId={job}", "TimeLimit=1")
        ranks["n1"].send_signal(signal.SIGCONT)
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
