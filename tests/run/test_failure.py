"""Who is named when ranks end: the one that knows why before the one that noticed, and the killed one before that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.config import load
from harness.run.failure import first, leave
from harness.run.launch import Here, Killed, _reason
from harness.run.spec import RunSpec
from odin.errors import InputError, RunError

GONE = RuntimeError("[gloo/transport/tcp/pair.cc:538] Connection closed by peer [127.0.0.1]:50012")


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    config = load(["link=none", "padded=false"])
    return RunSpec(config=config, cells=(("barrier", 0),), folder=tmp_path, nodes=2, meeting="127.0.0.1:1")


class Ended(Here):
    """Ranks of which one was ended from outside."""

    def killed(self, spec: RunSpec, codes: Sequence[int | None]) -> Killed:
        return Killed("Rank 3 on n2", "it was ended by the system (Killed)")


def test_a_spec_survives_its_file(spec: RunSpec) -> None:
    spec.save()
    assert RunSpec.load(spec.path) == spec


def test_the_first_that_knows_why_is_named(spec: RunSpec) -> None:
    assert first(spec) is None
    leave(spec, 0, "after step 4 of quality #1", GONE)
    leave(spec, 2, "after step 5 of quality #1", ValueError("no such row"))
    leave(spec, 1, "after step 5 of quality #1", RunError("Later."))
    text = str(_reason(spec, Here(), [1], "about step 4"))
    assert text.startswith("Rank 2 on ") and "after step 5 of quality #1: ValueError: no such row" in text
    assert "rank-2.log" in text and "Later" not in text


def test_a_killed_rank_is_named_before_those_that_noticed(spec: RunSpec) -> None:
    leave(spec, 0, "after step 4 of quality #1", GONE)
    text = str(_reason(spec, Ended(), [137], "about step 4 of quality #1"))
    assert text.startswith("Rank 3 on n2 was the first to go, about step 4 of quality #1: it was ended by the system")
    leave(spec, 2, "at start-up", InputError("The scene has no views."))
    told = _reason(spec, Ended(), [137], "")
    assert isinstance(told, InputError) and str(told) == "The scene has no views."


def test_without_any_account_the_logs_are_named(spec: RunSpec) -> None:
    assert str(spec.folder) in str(_reason(spec, Here(), [1], "before the first step"))
    leave(spec, 0, "while it met the others", GONE)
    assert "it noticed that another rank was gone" in str(_reason(spec, Here(), [1], ""))


def test_a_signal_names_its_rank(spec: RunSpec) -> None:
    assert Here().killed(spec, [0, -9, None]) == ("Rank 1", "it was ended by SIGKILL")
    assert Here().killed(spec, [0, 1, None]) is None
