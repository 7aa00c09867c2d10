"""A10: a Slurm whose sacct and squeue say "accounting storage is disabled": jobs come back as what they were."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.cli import main
from slurm.commands import jobs_app, submit_app
from slurm.outcomes import _say_once
from slurm.submission import submissions
from tests.slurm.clusters import ROOT, TINY, command
from tests.slurm.standin import install

STUDY = f"""
set: {{scene: '{TINY}', link: none, padded: false, ranks: 1, steps: 3, mirrored: false, realtime: false}}
axes: {{faults: [[], ['raise:step=2']]}}
pairs: [[barrier]]
"""


def test_one_finished_and_one_raising_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    pytest.importorskip("submitit", reason="the package submitit is not installed (pip install -e '.[slurm]')")
    standin, out, study = tmp_path / "slurm", tmp_path / "runs", tmp_path / "two.yaml"
    for name in [n for n in os.environ if n.startswith("SLURM_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{install(standin)}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    study.write_text(STUDY)
    _say_once.cache_clear()
    assert command(submit_app, str(study), "cluster=cpu", f"out={out}") == 0
    assert command(submit_app, str(study), "cluster=cpu", f"out={out}") == 2
    assert "in the queue already" in capsys.readouterr().err
    _say_once.cache_clear()
    assert command(jobs_app, str(out), "--wait") == 0
    told = capsys.readouterr()
    logs = "".join(path.read_text() for path in standin.glob("log-*"))
    (made,) = submissions(out)
    states = {line.split()[2]: line.split()[1] for line in told.out.splitlines() if line.startswith("  ")}
    assert states == dict(zip([*made.jobs, "table"], ["COMPLETED", "FAILED", "COMPLETED"], strict=True)), logs
    assert len(told.err.splitlines()) <= 1, told.err  # one warning at most
    assert main(["status", str(out)]) == 0
    said = capsys.readouterr().out
    assert "2 cells in 2 pairs: 1 done, 1 failed" in said, logs
    assert "RuntimeError: fault injected on purpose: raise:step=2" in said
    # Nothing is asked again for a job that is known to have ended.
    asked = len((standin / "asked").read_text().splitlines())
    assert command(jobs_app, str(out), "--wait") == 0
    assert len((standin / "asked").read_text().splitlines()) - asked <= 10
