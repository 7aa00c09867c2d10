"""Job states from the words of sacct and scontrol."""

from __future__ import annotations

import pytest

from slurm import states
from slurm.states import GONE, JobState, job_states, parse_sacct, parse_scontrol

SACCT = """7_0|COMPLETED|n1
7_1|CANCELLED by 0|n2
7_[2-3,5%2]|PENDING|None assigned
8|NODE_FAIL|n2
"""
SCONTROL = (
    "JobId=9 ArrayJobId=7 ArrayTaskId=1 JobName=x JobState=NODE_FAIL Reason=None NodeList=n2 BatchHost=n2\n"
    "JobId=7 ArrayJobId=7 ArrayTaskId=2-3,5%2 JobName=x JobState=PENDING Reason=Priority NodeList=(null)\n"
    "JobId=12 JobName=y JobState=RUNNING NodeList=n1\n"
)


def test_sacct() -> None:
    found = parse_sacct(SACCT)
    assert {job: s.state for job, s in found.items()} == {
        "7_0": "COMPLETED",
        "7_1": "CANCELLED",
        "7_2": "PENDING",
        "7_3": "PENDING",
        "7_5": "PENDING",
        "8": "NODE_FAIL",
    }
    assert found["8"].nodes == "n2"
    assert [found[j].active for j in ("7_0", "7_2")] == [False, True]


def test_scontrol() -> None:
    found = parse_scontrol(SCONTROL)
    assert {job: s.state for job, s in found.items()} == {
        "7_1": "NODE_FAIL",
        "7_2": "PENDING",
        "7_3": "PENDING",
        "7_5": "PENDING",
        "12": "RUNNING",
    }
    assert found["7_2"].nodes == ""


def test_a_launch_that_failed_is_stuck() -> None:
    held = "JobId=3 JobState=PENDING Reason=launch_failed_requeued_held NodeList=(null)\n"
    assert parse_scontrol(held)["3"].stuck
    assert not any(state.stuck for state in parse_scontrol(SCONTROL).values())


def outputs(monkeypatch: pytest.MonkeyPatch, sacct: str | None, scontrol: str | None) -> list[str]:
    asked: list[str] = []

    def output(*command: str) -> str | None:
        asked.append(command[0])
        return sacct if command[0] == "sacct" else scontrol

    monkeypatch.setattr(states, "_output", output)
    return asked


def test_without_accounting_scontrol_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs(monkeypatch, None, SCONTROL)
    assert {j: s.state for j, s in job_states(["7_1", "12", "7_9"]).items()} == {
        "7_1": "NODE_FAIL",
        "12": "RUNNING",
        "7_9": GONE,
    }


def test_accounting_that_lags_is_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = outputs(monkeypatch, "12|RUNNING|n1\n7_1|RUNNING|n2\n8|COMPLETED|n1\n", SCONTROL)
    found = job_states(["7_1", "8"])
    assert found == {"7_1": JobState(state="NODE_FAIL", nodes="n2"), "8": JobState(state="COMPLETED", nodes="n1")}
    assert asked == ["sacct", "scontrol"]


def test_nothing_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    assert outputs(monkeypatch, None, None) == []
    assert job_states([]) == {}
