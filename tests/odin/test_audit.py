"""Audits: what the error means, and what an audit leaves alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odin.audit import Auditor, AuditRecord, audited_steps
from odin.phases import Category, Phase
from odin.plan import Plan
from odin.publication import WaitingPublication
from odin.recipe import Event
from odin.runtime import Runtime
from tests.odin.test_exactness import digest, long_run, make_plan, train

NEVER = float("inf")  # the limit that no error exceeds


def audits(runs: list[Runtime]) -> list[AuditRecord]:
    """Those of rank 0, after checking that all ranks have the same."""
    policies = [run.publication.home or run.publication for run in runs]
    records = [policy.auditor.records for policy in policies]
    assert all(mine == records[0] for mine in records)
    return records[0]


def quiet(steps: int, views: list[list[int]]) -> tuple[Plan, list[Event]]:
    """Steps that train `views` of two ranks in turn, without events."""
    units = np.array([views[s % len(views)] for s in range(steps)], np.int32).reshape(steps, 2, -1)
    events = [Event.NONE] * steps
    return replace(make_plan(steps, 2, units.shape[2], events, 0), units=units), events


@given(
    blocking=st.lists(st.booleans(), min_size=1, max_size=40),
    dropped=st.sets(st.integers(0, 39)),
    every=st.integers(0, 12),
)
def test_events_do_not_hide_a_run_from_its_audits(blocking: list[bool], dropped: set[int], every: int) -> None:
    """Each period has one audit, at its first step that can be audited, and none only where no step can."""
    steps = len(blocking) + 1
    plan = replace(quiet(steps, DISJOINT)[0], blocking=np.array(blocking, np.int32))
    found = audited_steps(every, plan, dropped.__contains__)
    could = [s for s in range(1, steps) if not blocking[s - 1] and s not in dropped]
    if not every:
        assert not found
        return
    for due in range(every, steps, every):
        able = [s for s in could if due <= s < due + every]
        assert sorted(s for s in found if due <= s < due + every) == able[:1]
    assert all(s >= every for s in found)


DISJOINT = [[0, 1], [6, 7]]  # views reach one unit: nobody reads what the step before wrote
MEETING = [[3, 4, 5, 6]]


def test_where_nothing_is_read_late_there_is_no_error() -> None:
    plan, events = quiet(8, DISJOINT)
    runs, _, _ = train("predicted:audit=1", plan, events, lr=0.002)
    assert [a.step for a in audits(runs)] == list(range(1, 8))
    for record in audits(runs):
        assert (record.error, record.pixel) == (0.0, 0.0)
        assert record.by_kind == {"geometry": 0.0, "colour": 0.0}
    # With stale reads the rows' own momentum is late, though nobody else has written them.
    stale, _, _ = train("hogwild:audit=1", plan, events, lr=0.002)
    assert audits(stale)[0].error == 0.0
    assert all(a.error > 0 for a in audits(stale)[1:])


@pytest.mark.parametrize("name", ["quality:audit=1", "paper-quality:audit=2", "barrier-planned:audit=1"])
def test_exact_arms_have_no_error_and_stay_exact(name: str) -> None:
    plan, events = long_run()
    _, waited, _ = train("barrier-planned", plan, events)
    runs, recipes, _ = train(name, plan, events)
    assert bool(audits(runs)) == (name != "barrier-planned:audit=1"), "a step that waits for all reads nothing late"
    assert all((a.error, a.pixel) == (0.0, 0.0) for a in audits(runs))
    assert digest(recipes) == digest(waited)


@pytest.mark.parametrize(
    "name", ["predicted:audit=1", "hogwild:audit=1", "without-DAS:audit=2", "throughput:tau=1:rho=off:audit=1"]
)
def test_late_reads_have_an_error(name: str) -> None:
    plan, events = quiet(12, MEETING)
    runs, _, _ = train(name, plan, events)
    assert any(a.error > 0 and a.pixel > 0 for a in audits(runs))
    assert all(a.error >= 0 for a in audits(runs))


@pytest.mark.parametrize(
    "name",
    ["throughput:evidence=local:audit=2", "throughput:evidence=reduced:audit=3", "paper-literal:early=on:audit=1"],
)
@pytest.mark.parametrize("rows", [3, 60])
def test_every_policy_can_be_audited(name: str, rows: int) -> None:
    """Also where the gate has bound the step before the audit, and where no segment is left for the end."""
    plan, events = long_run()
    runs, recipes, _ = train(name, plan, events, rows=rows)
    digest(recipes)
    assert len(audits(runs)) > 5


def test_the_error_is_that_of_the_whole_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand, from the gradients of both ranks."""
    seen: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
    original = Auditor.run

    def run(self, step, views, rows, slot, free):
        record = original(self, step, views, rows, slot, free)
        seen.setdefault(step, []).append((slot.dense(), free.dense()))
        return record

    monkeypatch.setattr(Auditor, "run", run)
    monkeypatch.setattr("odin.audit.AUDIT_LIMIT", NEVER)
    plan, events = quiet(10, MEETING)
    runs, _, _ = train("predicted:audit=3", plan, events)
    assert [a.step for a in audits(runs)] == [3, 6, 9]
    for record in audits(runs):
        pairs = [(read.astype(np.float64), published.astype(np.float64)) for read, published in seen[record.step]]
        for columns, error in (
            (slice(0, 7), record.error),
            (slice(0, 3), record.by_kind["geometry"]),
            (slice(3, 7), record.by_kind["colour"]),
        ):
            wrong = sum(np.square((read - published)[:, columns]).sum() for read, published in pairs)
            truth = sum(np.square(published[:, columns]).sum() for _, published in pairs)
            assert error == pytest.approx(np.sqrt(wrong / truth), rel=1e-6)
        assert record.error > 0


class Remembering(WaitingPublication):
    """Keeps this rank's own gradient of every step."""

    def close(self, step: int) -> None:
        self.__dict__.setdefault("own", []).append(self._pending(step).slot.dense())
        super().close(step)


def test_the_reference_is_the_gradient_at_published_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """In step 1, what `barrier-planned` computes there: step 0 began from the same values."""
    recomputed: list[tuple[int, np.ndarray, np.ndarray]] = []
    original = Auditor.run

    def run(self, step, views, rows, slot, free):
        record = original(self, step, views, rows, slot, free)
        recomputed.append((self._transport.rank, slot.dense(), free.dense()))
        return record

    monkeypatch.setattr(Auditor, "run", run)
    plan, events = quiet(2, MEETING)
    runs, _, _ = train("barrier-planned", plan, events, policy=Remembering)
    train("predicted:audit=1:dispatch=static", plan, events)
    assert len(recomputed) == 2
    for rank, read, published in recomputed:
        expected = runs[rank].publication.own[1]
        assert np.allclose(published, expected, atol=1e-6)
        assert np.abs(read - expected).max() > 1e-3


@pytest.mark.parametrize(
    "name", ["predicted", "hogwild", "throughput:tau=1:rho=off", "throughput:tau=1:rho=off:reads=predicted"]
)
def test_an_audit_leaves_the_run_as_it_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient that is exchanged is the one that was read late, statistics count every view once."""
    monkeypatch.setattr("odin.audit.AUDIT_LIMIT", NEVER)
    plan, events = long_run()
    plain, without, _ = train(f"{name}:audit=0", plan, events)
    runs, audited, _ = train(f"{name}:audit=2", plan, events)
    assert len(audits(runs)) > 10
    assert any(a.error > 0 for a in audits(runs))
    assert digest(audited) == digest(without)
    for a, b in zip(without, audited, strict=True):
        assert a.visits.tolist() == b.visits.tolist()
        assert a.table.t == b.table.t
    assert runs[0].publication.payload_bytes == plain[0].publication.payload_bytes
    assert [w.state for w in runs[0].publication.windows] == [w.state for w in plain[0].publication.windows]


def test_an_audit_counts_as_overhead_and_has_phases_of_its_own() -> None:
    def useful(run: Runtime, step: int) -> int:
        entries = [e for e in run.keeper.entries if e.step == step and e.category == Category.USEFUL.value]
        return sum(e.name in (Phase.BLEND.value, Phase.COLOUR_BACKWARD.value, Phase.CULL.value) for e in entries)

    plan, events = quiet(6, MEETING)
    runs, _, _ = train("predicted:audit=4", plan, events)
    assert useful(runs[0], 4) == useful(runs[0], 3)
    names = [e.name for e in runs[0].keeper.entries if e.step == 4 and e.kind == "phase"]
    assert names.count(Phase.BLEND.value) == 4  # two views, twice
    assert names.count(Phase.AUDIT.value) == 1


@pytest.mark.parametrize(
    ("error", "failed"), [(0.0, False), (0.05, False), (0.0501, True), (float("inf"), True), (float("nan"), True)]
)
def test_an_error_that_is_no_number_has_failed(error: float, failed: bool) -> None:
    assert AuditRecord(step=1, error=error, by_kind={}, pixel=0.0).failed is failed
