"""`slurm.testcluster`: a real Slurm of two nodes starts, runs a job, loses a node and is gone afterwards."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from odin.errors import InputError
from slurm.testcluster import ClusterShape, TestCluster, obstacle
from tests.slurm.clusters import cluster_or_skip


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestCluster]:
    with cluster_or_skip(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def daemons(folder: Path) -> list[int]:
    return [int(line.split()[1]) for line in (folder / "pids").read_text().splitlines()]


def test_a_job_runs_on_both_nodes(cluster: TestCluster) -> None:
    assert sorted(cluster.run("srun", "-N2", "hostname").split()) == ["n1", "n2"]


def test_a_killed_node_takes_its_processes_with_it(cluster: TestCluster, tmp_path: Path) -> None:
    marker = tmp_path / "beat"
    loop = f"#!/bin/bash\nsetsid bash -c 'while true; do date +%s%N > {marker}; sleep 0.05; done'\n"
    script = tmp_path / "job.sh"
    script.write_text(loop)
    cluster.run("sbatch", "-w", "n2", "--no-requeue", "-o", "/dev/null", str(script))
    deadline = time.monotonic() + 30
    while not marker.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert marker.exists()
    cluster.kill_node("n2")
    time.sleep(0.5)
    last = marker.read_text()
    time.sleep(0.5)
    assert marker.read_text() == last


def test_jobs_run_however_deep_the_cluster_lies(tmp_path: Path) -> None:
    """A socket's path may have 108 characters; the folder of a user, or of a test, has more."""
    deep = tmp_path / ("a-folder-of-a-long-name" * 5)
    with cluster_or_skip(deep) as running:
        script = tmp_path / "job.sh"
        script.write_text(f"#!/bin/bash\nhostname > {tmp_path}/said\n")
        running.run("sbatch", "--wait", "-o", "/dev/null", str(script))
        short = (deep / "short").resolve()
        assert short.is_dir()
    assert (tmp_path / "said").read_text().strip() in ("n1", "n2")
    assert not short.exists()


def test_stop_leaves_nothing(tmp_path: Path) -> None:
    with cluster_or_skip(tmp_path) as running:
        started = daemons(running.folder)
        assert len(started) == 4  # munged, slurmctld, two nodes
        assert all(Path(f"/proc/{pid}").exists() for pid in started)
    assert not any(Path(f"/proc/{pid}/exe").exists() for pid in started)
    assert not (tmp_path / "pids").exists()


def test_without_root_or_slurm_the_reason_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("slurm.testcluster.shutil.which", lambda name, path: None)
    if os.geteuid() == 0:
        assert "slurmctld" in obstacle()
        assert "mariadb-server" in obstacle(accounting=True)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert obstacle() == "the test cluster needs root"
    with pytest.raises(InputError, match="needs root"), TestCluster(tmp_path):
        pass


def test_a_shape_becomes_options() -> None:
    assert ClusterShape(nodes=3, rate="1gbit").options() == [
        *("--nodes", "3", "--cpus", "2", "--acct", "none", "--net", "veth", "--rate", "1gbit")
    ]
