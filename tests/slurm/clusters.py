"""A cluster for a test module, or a counted skip; and waits that end, with the logs of what was waited for."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer

from harness.exits import exit_code
from harness.store.store import CellStore
from harness.study.plan import StudyPlan
from harness.study.states import pair_states
from harness.study.table import read_table
from slurm.commands import jobs_app
from slurm.states import job_states
from slurm.submission import submissions
from slurm.testcluster import ClusterShape, TestCluster, obstacle

ROOT = Path(__file__).resolve().parents[2]
TINY = "rooms?views=16&width=64&height=48&points=600"


@contextmanager
def cluster_or_skip(
    folder: Path, *, submitit: bool = False, cpus: int = 2, accounting: bool = False
) -> Iterator[TestCluster]:
    """Two nodes; skips with the reason where they cannot be had."""
    reason = obstacle(submitit=submitit, accounting=accounting)
    if reason:
        pytest.skip(reason)
    with TestCluster(folder, ClusterShape(nodes=2, cpus=cpus, accounting=accounting)) as cluster:
        yield cluster


@contextmanager
def connected(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, cpus: int = 2, accounting: bool = False
) -> Iterator[TestCluster]:
    """A cluster that this process and its jobs talk to."""
    with cluster_or_skip(folder, submitit=True, cpus=cpus, accounting=accounting) as cluster:
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH", "")) if p)
        monkeypatch.setenv("PYTHONPATH", path)
        for name in [n for n in os.environ if n.startswith("SLURM_") and n != "SLURM_CONF"]:
            monkeypatch.delenv(name)
        yield cluster


def command(app: typer.Typer, *words: str) -> int:
    """Exit code of a command line."""
    try:
        typer.main.get_command(app).main(args=list(words), prog_name="odin-bench")
    except SystemExit as stop:
        return exit_code(stop)
    return 0


def logs(out: Path) -> str:
    """What jobs and ranks of a folder of records wrote last."""
    found = [*out.glob("submissions/*/jobs/*.err"), *out.glob("scratch/*/*.log")]
    return "\n".join(f"{p}:\n{p.read_text(errors='replace')[-1500:]}" for p in sorted(found))


def finished(out: Path, capsys: pytest.CaptureFixture[str], seconds: float = 240) -> str:
    """What `jobs --wait` prints when every job has ended; fails with the logs where that takes longer."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        made = submissions(out)
        states = job_states(job for s in made for job in (*s.jobs.values(), s.reduce) if job)
        ended = not any(state.active for state in states.values())
        if ended and len(submissions(out)) == len(made):
            assert command(jobs_app, str(out), "--wait") == 0
            return capsys.readouterr().out
        time.sleep(1)
    pytest.fail(f"jobs did not end within {seconds:.0f} s: {states}\n{logs(out)}")


def words(out: Path, steps: int, ranks: int, cluster: str = "testcluster") -> list[str]:
    """A study of two pairs for `submit`."""
    return ["smoke", f"cluster={cluster}", f"scene={TINY}", f"steps={steps}", f"ranks={ranks}", f"out={out}"]


def assert_all_done_once(out: Path) -> None:
    """Every cell of that study has one record, and the table says so."""
    plan = StudyPlan.load(out / "studies/smoke/plan.json")
    states = [[c.known.state.value for c in s.cells] for s in pair_states(plan)]
    assert states == [["done"] * 4] * 2, logs(out)
    results = list(CellStore(out).results())
    assert len(results) == 8
    assert len({(r.cell.pair, r.cell.arm, r.cell.repeat) for r in results}) == 8
    assert all(r.provenance.slurm is not None for r in results)
    frame = read_table(plan.folder / "table.parquet")
    assert frame["state"].tolist() == ["done"] * 8
