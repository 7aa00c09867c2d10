"""`sacct` for real: a cluster with slurmdbd on MariaDB says the same of ended jobs as slurmctld does."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from slurm.states import _sacct, _scontrol, job_states
from slurm.testcluster import TestCluster
from tests.slurm.clusters import cluster_or_skip


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestCluster]:
    with cluster_or_skip(tmp_path_factory.mktemp("cluster"), accounting=True) as running:
        yield running


@pytest.fixture(autouse=True)
def connected(cluster: TestCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)


def sbatch(cluster: TestCluster, *words: str) -> str:
    return cluster.run("sbatch", "--parsable", "-o", "/dev/null", *words).strip()


def accounted(jobs: dict[str, str]) -> dict[str, str]:
    """Their states by sacct alone, once they are what they must be; accounting comes seconds late."""
    deadline = time.monotonic() + 60
    while True:
        found = {job: state.state for job, state in _sacct(sorted({j.partition("_")[0] for j in jobs})).items()}
        told = {job: found.get(job, "") for job in jobs}
        if told == jobs or time.monotonic() > deadline:
            return told
        time.sleep(0.5)


def test_ended_jobs_are_in_the_accounting(cluster: TestCluster) -> None:
    good = sbatch(cluster, "--wrap", "true")
    bad = sbatch(cluster, "--wrap", "exit 3")
    array = sbatch(cluster, "--array=0-1", "--wrap", 'test "$SLURM_ARRAY_TASK_ID" = 0')
    held = sbatch(cluster, "--hold", "--wrap", "true")
    cluster.run("scancel", held)
    wanted = {
        good: "COMPLETED", bad: "FAILED", f"{array}_0": "COMPLETED", f"{array}_1": "FAILED", held: "CANCELLED",
    }  # fmt: skip
    assert accounted(wanted) == wanted
    assert {job: state.state for job, state in job_states(wanted).items()} == wanted
    assert job_states([good])[good].nodes in ("n1", "n2")
    known = {name: state.state for job in (good, bad, array, held) for name, state in _scontrol(job).items()}
    assert {job: known.get(job) for job in wanted} == wanted


def test_a_preempted_and_a_running_job(cluster: TestCluster) -> None:
    long = sbatch(cluster, "-N2", "--exclusive", "--no-requeue", "--wrap", "sleep 300")
    deadline = time.monotonic() + 60
    while job_states([long])[long].state != "RUNNING":
        assert time.monotonic() < deadline, job_states([long])
        time.sleep(0.2)
    urgent = sbatch(cluster, "-p", "urgent", "-N2", "--exclusive", "--wrap", "true")
    assert accounted({long: "PREEMPTED", urgent: "COMPLETED"}) == {long: "PREEMPTED", urgent: "COMPLETED"}
