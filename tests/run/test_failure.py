"""Who is named when ranks end: the one that knows why before the one that noticed, and the killed one before that."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.config import load
from harness.run.failure import Whereabouts, first, leave
from harness.run.launch import Here
from harness.run.reason import Killed, reason
from harness.run.spec import RunSpec
from odin.errors import InputError, RunError

GONE = RuntimeError("[gloo/transport/tcp/pair.cc:538] Connection closed by peer [127.0.0.1]:50012")


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    config = load(["link=none", "padded=false", "ranks=4"])
    return RunSpec(config=config, cells=(("barrier", 0),), folder=tmp_path, nodes=2, meeting="127.0.0.1:1")


ENDED = Killed("Rank 3 on n2", "it was ended by the system (Killed)", 3)


def test_a_spec_survives_its_file(spec: RunSpec) -> None:
    spec.save()
    assert RunSpec.load(spec.path) == spec


def test_the_first_that_knows_why_is_named(spec: RunSpec) -> None:
    assert first(spec) is None
    leave(spec, 0, "after step 4 of quality #1", GONE)
    leave(spec, 2, "after step 5 of quality #1", ValueError("no such row"))
    leave(spec, 1, "after step 5 of quality #1", RunError("Later."))
    text = str(reason(spec, None, [], "after about 4 steps"))
    assert text.startswith("Rank 2 on ") and "after step 5 of quality #1: ValueError: no such row" in text
    assert "rank-2.log" in text and "Later" not in text


def test_a_killed_rank_is_named_before_those_that_noticed(spec: RunSpec) -> None:
    leave(spec, 0, "after step 4 of quality #1", GONE)
    text = str(reason(spec, ENDED, [], "after about 4 steps of quality #1"))
    assert text.startswith(
        "Rank 3 on n2 was the first to go, after about 4 steps of quality #1: it was ended by the system"
    )
    leave(spec, 2, "at start-up", InputError("The scene has no views."))
    told = reason(spec, ENDED, [], "")
    assert isinstance(told, InputError) and str(told) == "The scene has no views."


def test_without_any_account_the_logs_are_named(spec: RunSpec) -> None:
    assert str(spec.folder) in str(reason(spec, None, [], "before the first step"))
    leave(spec, 0, "while it met the others", GONE)
    assert "it noticed that another rank was gone" in str(reason(spec, None, [], ""))


def test_a_signal_names_its_rank(spec: RunSpec) -> None:
    assert Here().killed(spec, [0, -9, None]) == ("Rank 1", "it was ended by SIGKILL", 1)
    assert Here().killed(spec, [-6, -9, None]) == ("Rank 1", "it was ended by SIGKILL", 1), "rank 0 lost its peer"
    assert Here().killed(spec, [-6, 0, None]) == ("Rank 0", "it was ended by SIGABRT", 0)
    assert Here().killed(spec, [0, 1, None]) is None


def test_where_ranks_were_is_known_of_those_that_left_no_account(spec: RunSpec) -> None:
    places = Whereabouts(spec)
    places.create()
    assert (places.of(3), places.all()) == ("", "")
    places.say(3, "after 7 steps of quality #1")
    places.say(1, "x" * 1000)  # a place is of one size, whatever is said
    assert "Rank 3 on n2 was the first to go, after 7 steps of quality #1: it" in str(reason(spec, ENDED, [], "early"))
    assert places.of(1) == "x" * 512
    leave(spec, 0, "after 8 steps of quality #1", GONE)
    stuck = str(reason(spec, None, [3], "early"))
    assert stuck.startswith(
        "Rank 3, after 7 steps of quality #1, did not go on: the other ranks waited for it for 120 s"
    )
    assert "rank-3.log" in stuck
    assert "rank 3 after 7 steps of quality #1" in str(reason(spec, None, [], "early"))


def test_a_full_disk_leaves_room_for_the_reason(spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    Whereabouts(spec).create()
    dump = "harness.run.failure.json.dump"
    monkeypatch.setattr(dump, lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    assert leave(spec, 2, "after step 1", RunError("Cannot write x: No space left on device.")) == 1
    assert "rank 2 after step 1: Cannot write x: No space left on device." in str(reason(spec, None, [], ""))


@pytest.mark.parametrize(
    ("how", "oom_kills", "says"),
    [
        ("it was ended by SIGKILL", 0, "probably out of memory, or a kill"),
        ("it was ended by SIGKILL", 2, "out of memory: the system has killed"),
        ("it was ended by the system (Out Of Memory)", 0, "probably out of memory"),
        ("it was ended by SIGSEGV", 2, "a crash in native code"),
        ("it was ended by SIGTERM", 0, "(a kill from outside)"),
    ],
)
def test_what_a_signal_probably_means(spec: RunSpec, how: str, oom_kills: int, says: str) -> None:
    assert says in str(reason(spec, Killed("Rank 1", how, 1), [], "early", oom_kills))
