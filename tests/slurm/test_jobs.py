"""What the job after the pairs decides, without a cluster: who is sent again, who is given up, and what is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm import jobs
from slurm.profile import read_profile
from slurm.states import JobState
from slurm.submission import Submission, fresh_folder
from tests.study import studies

STATES = {"7_0": "COMPLETED", "7_1": "NODE_FAIL", "7_2": "OUT_OF_MEMORY", "7_3": "TIMEOUT", "7_4": "PREEMPTED",
          "7_5": "CANCELLED"}  # fmt: skip


def submission(plan, attempt: int) -> Submission:
    folder = fresh_folder(plan)
    made = Submission(
        folder=folder,
        plan=plan.save(folder),
        profile=read_profile("x", {"attempts": 2, "setup": ["module load x"]}),
        attempt=attempt,
        jobs={pair.key: f"7_{k}" for k, pair in enumerate(plan.pairs)},
    )
    assert Submission.load(made.save()) == made
    return made


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = studies.plan(tmp_path, seeds=range(6))
    studies.record_pair(made, made.pairs[0])
    studies.record_pair(made, made.pairs[4])  # done before it was preempted
    monkeypatch.setattr("slurm.outcomes.job_states", lambda wanted: {j: JobState(state=STATES[j]) for j in wanted})
    return made


def test_lost_pairs_are_sent_again(plan) -> None:
    again = jobs.lost_pairs(submission(plan, 1), plan)
    assert [pair.key for pair in again] == [plan.pairs[1].key, plan.pairs[3].key]
    notes = {pair.key: plan.note(pair).read_text() for pair in plan.pairs if plan.note(pair).exists()}
    assert list(notes) == [plan.pairs[2].key, plan.pairs[5].key]
    assert "ended as OUT_OF_MEMORY." in notes[plan.pairs[2].key]
    assert "ended as CANCELLED." in notes[plan.pairs[5].key]


def test_after_the_last_attempt_they_are_given_up(plan) -> None:
    assert jobs.lost_pairs(submission(plan, 2), plan) == []
    assert "ended as NODE_FAIL (attempt 2 of 2)" in plan.note(plan.pairs[1]).read_text()


def test_reduce_submits_and_writes_the_table(plan, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []

    def submit(study, profile, pairs, *, attempt):
        sent.append((study.name, [pair.key for pair in pairs], attempt))
        return submission(plan, attempt)

    monkeypatch.setattr("slurm.submit.submit", submit)
    made = submission(plan, 1)
    jobs.reduce(str(made.folder / "submission.json"))
    assert sent == [("tiny", [plan.pairs[1].key, plan.pairs[3].key], 2)]
    assert (plan.folder / "table.csv").exists()
    assert "speedup" in (plan.folder / "summary.txt").read_text()


def test_folders_are_never_used_twice(plan) -> None:
    assert len({fresh_folder(plan) for _ in range(20)}) == 20
