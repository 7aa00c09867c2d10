"""`harness.config.words` and `.keys`: what a user may type."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.config import load
from harness.config.keys import find_key, groups, keys, short_words
from harness.config.words import overrides, quoted
from odin.errors import InputError


def through_hydra(text: str) -> object:
    """What Hydra and OmegaConf make of a quoted text."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from omegaconf import OmegaConf

    parsed = OverridesParser.create().parse_override(f"key={quoted(text)}")
    plain = OmegaConf.to_container(OmegaConf.create({"key": parsed.value()}), resolve=True)
    assert isinstance(plain, dict)
    return plain["key"]


@given(st.text() | st.text(alphabet="\\${}'\"[](),=: \n~?a"))
@settings(max_examples=150, deadline=None)
def test_any_text_survives_quoting(text: str) -> None:
    assert through_hydra(text) == text


@pytest.mark.parametrize(
    "path", ["a b", "a=b=c", "[a]", "{a: 1}", "${seed}", "\\${x}", "a,b", "???", "null", "1e3", "日本", "b\udce9"]
)
def test_a_path_is_taken_as_typed(path: str) -> None:
    config = load([f"scene={path}", f"out={path}"])
    assert (config.scene.path, config.out) == (path, path)


@pytest.mark.parametrize(
    ("word", "key", "value"),
    [
        ("steps=9", "scale.steps", 9),
        ("images=images_2", "scene.images", "images_2"),
        ("seed=3", "seed", 3),
        ("ranks=1", "engine.ranks", 1),
        ("out=elsewhere", "out", "elsewhere"),
        ("pipeline=3dgs", "pipeline.name", "3dgs"),
        ("link=exposed-323", "link.exposed_share", 0.323),
        ("link=none", "link.exposed_share", 0.0),
        ("scale=smoke", "scale.steps", 12),
        ("arms=barrier", "study.arms", ("barrier",)),
        ("arms=barrier,predicted", "study.arms", ("barrier", "predicted")),
        ("study.arms=[barrier, predicted]", "study.arms", ("barrier", "predicted")),
        ("densify_at=20", "pipeline.densify_at", (20,)),
        ("densify_at=20,40", "pipeline.densify_at", (20, 40)),
        ("densify_at=[]", "pipeline.densify_at", ()),
        ("sh_at=null", "pipeline.sh_at", None),
        ("densify_every=5", "pipeline.densify_every", 5),
        ("perturb=1e-6", "pipeline.perturb", 1e-6),
        ("timeout_s=60", "engine.timeout_s", 60.0),
        ("padded=False", "engine.padded", False),
        ("reduce=ordered", "engine.reduce", "ordered"),
        ("ranks=16", "engine.ranks", 16),
        ("steps=${engine.ranks}", "scale.steps", 2),
    ],
)
def test_a_word_sets_its_key(word: str, key: str, value: object) -> None:
    words = [word] if not word.startswith("images") else [word, "scene=/data/bonsai"]
    found: object = load(words)
    for part in key.split("."):
        found = getattr(found, part)
    assert found == value
    assert type(found) is type(value)


def test_every_key_can_be_found_and_every_short_word_is_one_key() -> None:
    assert all(find_key(key) == key for key in keys())
    assert all(find_key(word) == key for word, key in short_words().items())
    assert not set(short_words()) & set(groups())


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("stpes", "steps"), ("Seed", "seed"), ("scene.imges", "scene.images"), ("pipline", "pipeline"),
     ("engine.rank", "engine.ranks"), ("+steps", "steps"), ("~link", "link"), ("study.steps", "scale.steps")],
)  # fmt: skip
def test_an_unknown_key_names_the_nearest(typed: str, meant: str) -> None:
    with pytest.raises(InputError, match=f"nearest valid one is '{meant}'"):
        load([f"{typed}=1"])


@pytest.mark.parametrize("typed", ["", "hydra", "hydra.run.dir", "defaults", "_target_", "scene@x", "a/b", "9"])
def test_words_of_hydra_are_no_keys(typed: str) -> None:
    with pytest.raises(InputError, match="There is no key"):
        load([f"{typed}=1"])


def test_a_word_that_several_keys_end_in_is_refused() -> None:
    with pytest.raises(InputError, match=r"could be any of pipeline\.name, engine\.name"):
        load(["name=x"])


@pytest.mark.parametrize("group", sorted(set(groups()) - {"scene"}))
def test_an_unknown_option_lists_the_options(group: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"Options of {group}: {', '.join(groups()[group])}")):
        load([f"{group}=nonsense"])


def test_a_misspelt_scene_is_said_but_a_folder_of_that_name_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="nearest scene is scene=rooms"):
        load(["scene=room"])
    (tmp_path / "room").mkdir()
    assert load(["scene=room"]).scene.path == "room"


def test_other_words_are_paths_for_the_run_to_open() -> None:
    assert load(["scene=/not/there"]).scene.path == "/not/there"
    assert load(["scene=bonsai"]).scene.path == "bonsai"
    assert load(["scene=./rooms"]).scene.path == "./rooms"
    assert load(["scene=rooms?views=16&width=64"]).scene.procedural


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["steps=1", "steps=2"], ["scale.steps=2"]),
        (["steps=1", "scale.steps=2"], ["scale.steps=2"]),
        (["link=none", "link=exposed-229"], ["link=exposed-229"]),
        (["scene=/a", "scene=rooms"], ["scene=rooms"]),
        (["scene=rooms", "scene=/a"], ["scene=rooms", "scene.path='/a'"]),
        (["steps=1", "scale=smoke"], ["scale=smoke", "scale.steps=1"]),
    ],
)
def test_the_later_word_counts_and_choices_come_first(words: list[str], expected: list[str]) -> None:
    assert overrides(words) == expected


@pytest.mark.parametrize("word", ["steps", "", "--", "bonsai"])
def test_a_word_without_a_value_is_refused(word: str) -> None:
    with pytest.raises(InputError, match="not of the form KEY=VALUE"):
        load([word])
    with pytest.raises(InputError, match="has no value"):
        load(["steps="])
