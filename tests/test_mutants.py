"""`make mutants` fails on a mutant that survives, and on a run that tested nothing."""

from __future__ import annotations

import pytest

from tests import mutants
from tests.mutants import PUBLIC, Trial, attempt

NO_TESTS = 5  # pytest's exit code where none was collected


@pytest.mark.parametrize(
    ("mutant", "code", "good", "verdict"),
    [
        ("", 0, True, "passed"),
        ("", 1, False, "failed"),
        ("three slots", 1, True, "killed"),
        ("three slots", 0, False, "survived"),
        ("three slots", NO_TESTS, False, "broken (pytest exit code 5)"),
    ],
)
def test_verdicts(mutant: str, code: int, good: bool, verdict: str) -> None:
    trial = Trial(mutant=mutant, code=code, seconds=1.0, output="FAILED tests/a.py::test_b[c] - assert\n")
    assert (trial.good, trial.verdict, trial.killer) == (good, verdict, "test_b[c]")


@pytest.mark.parametrize("survivor", ["", *PUBLIC])
def test_one_survivor_is_enough(survivor: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    def fake(mutant: str) -> Trial:
        code = bool(mutant) != (mutant == survivor)
        return Trial(mutant=mutant, code=int(code), seconds=1.0, output="")

    monkeypatch.setattr(mutants, "attempt", fake)
    assert mutants.main() == 1
    assert ("survived" if survivor else "failed") in capsys.readouterr().out


def test_a_mutant_that_does_not_exist_is_no_success() -> None:
    assert not attempt("no such bug").good
