"""The doctor's line of each fork, in every state that a fork can be in."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.doctor import State
from harness.doctor.forks import fork, forks
from pipelines.adapters.pins import UNKNOWN, Checkout, pins

PIN = pins()["taminggs"]
THERE = Checkout(pin=PIN, folder=Path("/forks/taming-3dgs"), commit=PIN.commit, changed=False)


def answering(said: str) -> tuple[str, ...]:
    """A probe that says this."""
    return (sys.executable, "-c", f"print('''{said}''')")


def test_an_absent_fork_is_no_fault() -> None:
    found = fork(PIN, None)
    assert found.state is State.OK
    assert PIN.command in found.found


@pytest.mark.parametrize(
    ("checkout", "says", "fix"),
    [
        (replace(THERE, commit=UNKNOWN), "no git checkout", f"git clone --recursive {PIN.url}"),
        (replace(THERE, commit="0" * 40), "the adapter is for", f"checkout {PIN.commit}"),
        (replace(THERE, changed=True), "changed files", "status"),
    ],
)
def test_another_commit_is_said(checkout: Checkout, says: str, fix: str) -> None:
    found = fork(PIN, checkout)
    assert found.state is State.WARN
    assert says in found.found
    assert fix in found.fix


@pytest.mark.parametrize(
    ("said", "state", "says"),
    [
        ('{"failed": {}, "gpu": true}', State.OK, "device=cuda source=fork pipeline=taminggs padded"),
        ('{"failed": {"simple_knn": "ImportError: x"}, "gpu": true}', State.WARN, "simple_knn cannot be imported"),
        ('{"failed": {"simple_knn": "ImportError: x"}, "gpu": false}', State.OK, "no GPU"),
        ("Segmentation fault", State.WARN, "ended the process"),
    ],
)
def test_extensions_and_gpu(said: str, state: State, says: str) -> None:
    found = fork(PIN, THERE, answering(said))
    assert found.state is state
    assert says in found.found
    assert (found.state is State.OK) == (found.fix == "")


def test_every_fork_has_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ODIN_FORKS", str(tmp_path))
    found = forks(answering('{"failed": {}, "gpu": false}'))
    assert [finding.name for finding in found] == [f"fork {name}" for name in pins()]
