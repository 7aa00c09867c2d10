"""Submission on a real Slurm of two virtual nodes: real ranks, a lost node, no record twice."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from harness.cli import main
from harness.exits import exit_code
from harness.store.store import CellStore
from harness.study.command import plan_study
from harness.study.states import pair_states
from harness.study.table import read_table
from slurm.commands import jobs_app, submit_app
from slurm.states import job_states
from slurm.submission import submissions
from slurm.testcluster import TestCluster
from tests.slurm.clusters import cluster_or_skip

ROOT = Path(__file__).resolve().parents[2]
TINY = "rooms?views=16&width=64&height=48&points=600"


def command(app: typer.Typer, *words: str) -> int:
    try:
        typer.main.get_command(app).main(args=list(words), prog_name="odin-bench")
    except SystemExit as stop:
        return exit_code(stop)
    return 0


@contextlib.contextmanager
def connected(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestCluster]:
    """A cluster that this process and its jobs talk to."""
    with cluster_or_skip(folder, submitit=True) as cluster:
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH", "")) if p)
        monkeypatch.setenv("PYTHONPATH", path)
        for name in [n for n in os.environ if n.startswith("SLURM_") and n != "SLURM_CONF"]:
            monkeypatch.delenv(name)
        yield cluster


def words(out: Path, steps: int, ranks: int) -> list[str]:
    return ["smoke", "cluster=testcluster", f"scene={TINY}", f"steps={steps}", f"ranks={ranks}", f"out={out}"]


def logs(out: Path) -> str:
    return "\n".join(f"{p}:\n{p.read_text()[-1500:]}" for p in sorted(out.glob("submissions/*/jobs/*.err")))


def assert_all_done_once(out: Path) -> None:
    plan = plan_study("smoke", [f"out={out}"])
    (path,) = out.glob("studies/smoke/plan.json")
    plan = type(plan).load(path)
    states = [[c.known.state.value for c in s.cells] for s in pair_states(plan)]
    assert states == [["done"] * 4] * 2, logs(out)
    results = list(CellStore(out).results())
    assert len(results) == 8
    assert len({(r.cell.pair, r.cell.arm, r.cell.repeat) for r in results}) == 8
    assert all(r.provenance.slurm is not None for r in results)
    frame = read_table(plan.folder / "table.parquet")
    assert frame["state"].tolist() == ["done"] * 8


def running_on(nodes: set[str], out: Path) -> None:
    """Wait until a pair runs on each of these nodes and its ranks have started on its cells."""
    (made,) = submissions(out)
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        states = job_states(made.jobs.values()).values()
        if {s.nodes for s in states if s.state == "RUNNING"} >= nodes and len(list(out.glob("cells/*/pair"))) >= 8:
            return
        time.sleep(0.5)
    pytest.fail(logs(out))


def test_a_study_through_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """Two pairs in one array, each on a node; the table is written by the job after them."""
    out = tmp_path / "runs"
    with connected(tmp_path / "cluster", monkeypatch):
        assert command(submit_app, *words(out, 2, 1)) == 0
        assert command(submit_app, *words(out, 2, 1)) == 2
        assert "in the queue already" in capsys.readouterr().err
        assert command(jobs_app, str(out), "--wait") == 0
        assert capsys.readouterr().out.count("COMPLETED") == 3, logs(out)
        assert_all_done_once(out)
        assert command(submit_app, *words(out, 2, 1)) == 0
        assert "Nothing to submit" in capsys.readouterr().out
    (made,) = submissions(out)
    first, second = made.jobs.values()
    assert (first.partition("_")[0], first[-2:], second[-2:]) == (second.partition("_")[0], "_0", "_1")
    assert main(["status", str(out)]) == 0
    assert "8 done" in capsys.readouterr().out


@pytest.mark.slow
def test_a_lost_node_ends_with_all_pairs_done_and_no_record_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    out = tmp_path / "runs"
    with connected(tmp_path / "cluster", monkeypatch) as cluster:
        assert command(submit_app, *words(out, 10, 2)) == 0
        running_on({"n2"}, out)
        cluster.kill_node("n2")
        assert command(jobs_app, str(out), "--wait") == 0
        printed = capsys.readouterr().out
        assert "NODE_FAIL" in printed, printed
        assert_all_done_once(out)
    again = submissions(out)
    assert [s.attempt for s in again] == [1, 2]
    assert len(again[1].jobs) == 1
    assert again[0].folder != again[1].folder


def test_the_local_twin_runs_the_same_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("submitit", reason="the package submitit is not installed (pip install -e '.[slurm]')")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    out = tmp_path / "runs"
    bad = ["smoke", "cluster=cpu_local", f"scene={tmp_path}/absent", f"out={out}"]
    assert command(submit_app, *bad) == 0
    assert (out / "studies/smoke/table.csv").exists()
    assert main(["status", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "8 cells in 2 pairs: 0 done, 2 failed" in printed
    assert "absent" in printed


def test_a_job_may_not_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    assert command(submit_app, *words(tmp_path, 2, 1)) == 2
    assert "itself in Slurm job 12" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_dry_run_prints_what_sbatch_would_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    pytest.importorskip("submitit", reason="the package submitit is not installed (pip install -e '.[slurm]')")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert command(submit_app, *words(tmp_path, 2, 2), "--dry-run") == 0
    out = capsys.readouterr().out
    assert "smoke: 8 cells in 2 pairs" in out
    for line in ("--array=0-1%2", "--cpus-per-task=2", "--no-requeue", "--partition=main", "--time=15"):
        assert f"#SBATCH {line}\n" in out
    assert "#SBATCH --dependency=afterany:PAIRS" in out
    assert not list(tmp_path.iterdir())


def test_a_profile_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(submit_app, "smoke") == 2
    assert "submit needs a cluster profile" in capsys.readouterr().err


@pytest.mark.slow
def test_preempted_pairs_run_again_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    out = tmp_path / "runs"
    with connected(tmp_path / "cluster", monkeypatch) as cluster:
        assert command(submit_app, *words(out, 10, 2)) == 0
        running_on({"n1", "n2"}, out)
        urgent = ["-p", "urgent", "-N2", "--exclusive", "-o", "/dev/null"]
        cluster.run("sbatch", *urgent, "--wrap", "sleep 2")
        assert command(jobs_app, str(out), "--wait") == 0
        printed = capsys.readouterr().out
        assert printed.count("PREEMPTED") == 2, printed
        assert_all_done_once(out)
    assert [(s.attempt, len(s.jobs)) for s in submissions(out)] == [(1, 2), (2, 2)]


@pytest.mark.slow
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
        assert command(jobs_app, str(out), "--wait") == 0
        printed = capsys.readouterr().out
        assert printed.count("TIMEOUT") == 2, printed
    assert [s.attempt for s in submissions(out)] == [1, 2]
    assert main(["status", str(out)]) == 0
    assert "ended as TIMEOUT (attempt 2 of 2)" in capsys.readouterr().out
