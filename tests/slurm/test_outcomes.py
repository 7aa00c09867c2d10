"""What jobs leave behind, where Slurm tells nothing and where it tells of another job of the same number."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from slurm.outcomes import _say_once, outcome, states_of
from slurm.profile import read_profile
from slurm.states import GONE, JobState
from slurm.submission import Submission, fresh_folder
from tests.study import studies


@pytest.fixture
def made(tmp_path: Path) -> Submission:
    plan = studies.plan(tmp_path, seeds=[0])
    folder = fresh_folder(plan)
    return Submission(
        folder=folder, plan=plan.save(folder), profile=read_profile("x", {"hours": 2}), attempt=1, jobs={"a": "7_0"}
    )


def state(made: Submission, monkeypatch: pytest.MonkeyPatch, told: str, *, answers: bool) -> str:
    monkeypatch.setattr("slurm.outcomes.job_states", lambda jobs: {job: JobState(state=told) for job in jobs})
    monkeypatch.setattr("slurm.outcomes.controller_answers", lambda: answers)
    ((_, key, job, found),) = states_of([made])
    assert (key, job) == ("a", "7_0")
    return found.state


def aged(made: Submission, seconds: float) -> None:
    """As if what was left had been so long ago."""
    path = made.folder / "outcomes" / "a"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"time": time.time() - seconds}))


def test_a_slurm_that_tells_nothing(made: Submission, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    _say_once.cache_clear()
    blind = {"told": GONE, "answers": False}
    assert state(made, monkeypatch, **blind) == "PENDING"
    with outcome(made.folder, "a"):
        assert state(made, monkeypatch, **blind) == "RUNNING"
        aged(made, 4 * 3600)  # over its 2 hours: its node may be gone, and nobody will ever say so
        assert state(made, monkeypatch, **blind) == GONE
    assert state(made, monkeypatch, **blind) == "COMPLETED"
    with pytest.raises(RuntimeError), outcome(made.folder, "a"):
        raise RuntimeError
    assert state(made, monkeypatch, **blind) == "FAILED"
    assert capsys.readouterr().err.count("Neither sacct nor scontrol answers") == 1


def test_a_job_that_never_began_is_given_up(made: Submission, monkeypatch: pytest.MonkeyPatch) -> None:
    long_ago = time.time() - 4 * 3600
    os.utime(made.folder, (long_ago, long_ago))
    assert state(made, monkeypatch, GONE, answers=False) == GONE


def test_a_controller_that_has_forgotten_a_job_is_believed(made: Submission, monkeypatch: pytest.MonkeyPatch) -> None:
    with outcome(made.folder, "a"):
        assert state(made, monkeypatch, GONE, answers=True) == GONE
    assert state(made, monkeypatch, GONE, answers=True) == "COMPLETED"


def test_a_namesake_of_an_ended_job_is_another_job(made: Submission, monkeypatch: pytest.MonkeyPatch) -> None:
    with outcome(made.folder, "a"):
        pass
    assert state(made, monkeypatch, "RUNNING", answers=True) == "RUNNING"  # it is ending just now
    aged(made, 3600)
    assert state(made, monkeypatch, "RUNNING", answers=True) == "COMPLETED"
    assert state(made, monkeypatch, "NODE_FAIL", answers=True) == "NODE_FAIL"
