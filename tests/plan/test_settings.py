"""`harness.plan.settings`: words of the plan beside those of a study."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.plan.settings import PlanSettings, profile_path, read_words
from odin.errors import InputError


def test_words_go_where_they_belong() -> None:
    config, settings = read_words(
        ["ranks=4", "sas=paper", "coupling_limit=0.1", "memory=1.5MB", "seed=3", "profile=none"]
    )
    assert (config.engine.ranks, config.seed, config.study.name) == (4, 3, "headline")
    assert settings == PlanSettings(profile="none")
    assert (config.study.largest_coupling, config.study.memory_bytes) == (0.1, 1_500_000)
    plain, settings = read_words([])
    assert settings == PlanSettings()
    assert plain.study.largest_coupling is None and plain.study.memory_bytes is None
    assert read_words(["sas=paper"])[0].study.largest_coupling == 0.2
    assert read_words(["memory=12"])[0].study.memory_bytes == 12
    assert read_words(["memory=none"])[0].study.memory_bytes is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sas=papr"], "The nearest one is sas=paper"),
        (["sas=paper", "coupling_limit=2"], "from 0 to 1"),
        (["sas=paper", "coupling_limit=nan"], "from 0 to 1"),
        (["sas=paper", "coupling_limit=much"], "expected a number, or null"),
        (["coupling_limit=0.1"], "only used by sas=paper"),
        (["memory=lots"], "expected a size"),
        (["memory=-1"], "expected a size"),
        (["memory=1MB", "pipeline=grendel", "arms=barrier"], "memory=none with pipeline=grendel"),
        (["profle=none"], "'profile'"),
        (["rank=2"], "nearest valid one is"),
        (["ranks"], "KEY=VALUE"),
    ],
)
def test_what_means_nothing_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_words(words)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_profile_is_the_named_or_the_newest_one(tmp_path: Path) -> None:
    assert profile_path(PlanSettings(), tmp_path) is None
    (tmp_path / "profiles").mkdir()
    old, new = tmp_path / "profiles" / "b.json", tmp_path / "profiles" / "a.json"
    for place, path in enumerate((old, new)):
        path.write_text("{}")
        os.utime(path, (place, place))
    assert profile_path(PlanSettings(), tmp_path) == new
    assert profile_path(PlanSettings(profile="none"), tmp_path) is None
    assert profile_path(PlanSettings(profile=str(old)), tmp_path) == old
    with pytest.raises(InputError, match="is not a file"):
        profile_path(PlanSettings(profile=str(tmp_path / "c.json")), tmp_path)
