"""A cluster for a test module, or a counted skip."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slurm.testcluster import ClusterShape, TestCluster, obstacle


@contextmanager
def cluster_or_skip(folder: Path, *, submitit: bool = False, cpus: int = 2) -> Iterator[TestCluster]:
    """Two nodes; skips with the reason where they cannot be had."""
    reason = obstacle(submitit=submitit)
    if reason:
        pytest.skip(reason)
    with TestCluster(folder, ClusterShape(nodes=2, cpus=cpus)) as cluster:
        yield cluster
