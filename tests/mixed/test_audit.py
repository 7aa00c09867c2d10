"""Audits of shards: they measure, change nothing that is trained, and send a failing arm back to waiting."""

from __future__ import annotations

import pytest

from harness.run.workload import Workload
from odin.publication import WindowState
from tests.mixed.rooms import Trained, losses, settings_of, trained, workload


@pytest.fixture(scope="module")
def scene() -> Workload:
    return workload()


def audited(scene: Workload, arm: str, balance: str = "views") -> Trained:
    settings = settings_of(densify_at=(), reset_at=(11,), sh_at=(), balance=balance)
    return trained(scene, arm, 2, steps=16, settings=settings, order="quality")


@pytest.mark.parametrize("arm", ["predicted", "throughput"])
def test_an_audit_measures_and_changes_nothing(scene: Workload, arm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odin.audit.AUDIT_LIMIT", float("inf"))
    with_audits, without = audited(scene, f"{arm}:audit=4"), audited(scene, f"{arm}:audit=0")
    assert with_audits.digest == without.digest
    assert losses(with_audits).tolist() == losses(without).tolist()
    assert with_audits.payload == without.payload, "an audit's traffic is not the step's"
    assert with_audits.audits[0] == with_audits.audits[1]
    assert [a.step for a in with_audits.audits[0]] == [4, 8, 12]
    for record in with_audits.audits[0]:
        assert 0 <= record.error < 1 and 0 <= record.pixel < 1
        assert list(record.by_kind) == ["xyz", "scale", "rotation", "opacity", "f_dc", "f_rest"]
    first = with_audits.audits[0][0]  # after the reset rows are so faint that successive steps share none
    assert first.error > 0 and first.pixel > 0
    assert not without.audits[0]


@pytest.mark.parametrize("balance", ["views", "state"])
def test_waiting_has_no_error(scene: Workload, balance: str) -> None:
    records = audited(scene, "quality:audit=4", balance).audits[0]
    assert [a.step for a in records] == [4, 8, 12]
    assert all((a.error, a.pixel, set(a.by_kind.values()) - {0.0}) == (0.0, 0.0, set()) for a in records)


def test_a_failed_audit_waits_until_the_next_event(scene: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odin.audit.AUDIT_LIMIT", 0.0)
    run = audited(scene, "predicted:audit=5")
    assert [a.step for a in run.audits[0]] == [5, 15], "an arm that waits is not audited"
    windows = {w.step: w for w in run.windows[0]}
    assert windows[5].state is WindowState.REJECTED and windows[5].reason == "audit"
    assert all(windows[step].delayed_rows > 0 for step in (0, 4, 12))
    assert all(windows[step].delayed_rows == 0 and windows[step].waited_rows > 0 for step in range(6, 10))
