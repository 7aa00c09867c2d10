"""Submission on a real Slurm of two virtual nodes: real ranks, a lost node, no record twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.cli import main
from harness.store.store import CellStore
from slurm.commands import submit_app
from slurm.submission import submissions
from tests.slurm.clusters import ROOT, assert_all_done_once, command, connected, finished, logs, words


def test_a_study_through_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """Two pairs in one array, the two ranks of each on two nodes; the table is written by the job after them."""
    out, profile = tmp_path / "runs", tmp_path / "nodes.yaml"
    profile.write_text("hours: 0.25\nranks_per_node: 1\n")
    asked = words(out, 2, 2, str(profile))
    with connected(tmp_path / "cluster", monkeypatch):
        assert command(submit_app, *asked) == 0
        assert command(submit_app, *asked) == 2
        assert "in the queue already" in capsys.readouterr().err
        assert finished(out, capsys).count("COMPLETED") == 3, logs(out)
        assert_all_done_once(out)
        assert command(submit_app, *asked) == 0
        assert "Nothing to submit" in capsys.readouterr().out
    results = list(CellStore(out).results())
    assert {(r.provenance.slurm.nodes, r.provenance.slurm.tasks) for r in results} == {("n[1-2]", "2")}
    assert all(0 < r.provenance.slurm.clock_error < 0.1 for r in results)  # the timeline is on one clock
    assert {r.cell.label.value for r in results} == {"measured"}
    assert not list(out.glob("scratch/*"))
    (made,) = submissions(out)
    first, second = made.jobs.values()
    assert (first.partition("_")[0], first[-2:], second[-2:]) == (second.partition("_")[0], "_0", "_1")
    assert main(["status", str(out)]) == 0
    assert "8 done" in capsys.readouterr().out


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
