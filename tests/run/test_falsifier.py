"""Review 1 in training: the falsifier scene trips the audit of arms that read stale rows by the gradient gate."""

from __future__ import annotations

from typing import cast

import pytest

from benchmarks.falsifier import candidate_windows
from harness.config import load
from harness.run.workload import Workload, load_workload
from odin.arms import AUDIT_LIMIT, arm
from odin.audit import AuditRecord
from odin.comm.transport import Transport
from odin.keeper import Keeper
from odin.runtime import Runtime
from tests.odin.threads import run_ranks

BEGUN = 8  # Adam's first steps are as long as the learning rate, whatever the gradient
WORDS = ["scene=falsifier?points=5000", "steps=40", "densify=false", "test_every=0"]


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Workload:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ODIN_CACHE", str(tmp_path_factory.mktemp("cache")))
        return load_workload(load(WORDS))


def audits(workload: Workload, name: str) -> list[AuditRecord]:
    """Of the steps that read near views right after a step of far ones, once the first, largest steps are over."""
    plan = workload.plan(arm(name))
    wanted = candidate_windows(workload, plan)
    steps = frozenset(step + 1 for step in range(BEGUN, plan.steps - 1) if wanted(step))
    assert steps

    def main(transport: Transport) -> list[AuditRecord]:
        runtime = Runtime(workload.recipe(), plan, arm(name), transport, Keeper())
        assert runtime.publication.auditor is not None
        runtime.publication.auditor.steps = steps
        runtime.run()
        return runtime.publication.auditor.records

    return cast("list[AuditRecord]", run_ranks(2, main)[0][0])


@pytest.mark.parametrize("name", ["throughput:audit=50", "throughput:evidence=local:rho=off:audit=50"])
def test_the_audit_stops_an_arm_that_reads_by_the_gate(workload: Workload, name: str) -> None:
    found = audits(workload, name)
    assert found[0].failed, [record.error for record in found]
    assert found[0].error > AUDIT_LIMIT


def test_predicted_reads_pass_it(workload: Workload) -> None:
    found = audits(workload, "predicted:audit=50")
    assert found
    assert not any(record.failed for record in found), [record.error for record in found]
