"""SceneSpec, the sizes of procedural captures and the choice between folders and procedural captures."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.scenes import FalsifierSpec, RoomsSpec, SceneSpec, load_scene
from harness.scenes.load import PROCEDURAL
from odin.errors import InputError

from .toy_scene import write_toy_scene


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"path": " "}, "scene path is empty"),
        ({"path": "a", "images": ""}, "image folder is empty"),
        ({"path": "a", "test_every": -8}, "test_every is -8"),
    ],
)
def test_a_spec_that_means_nothing_is_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SceneSpec(**values)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("colour=red", 'cannot read "colour=red"'),
        ("views=many", 'cannot read "views=many"'),
        ("views=", 'cannot read "views="'),
        ("views=16&views=16", 'cannot read "views=16"'),
        ("views", 'cannot read "views="'),
        ("&", "expected key=value pairs"),
        ("views=-16", "-16 views are too few"),
        ("views=5&rooms=3", "5 views are too few for 3 room"),
        ("width=2", "width is 2; give 8 or more"),
        ("points=0", "points is 0"),
        ("rooms=0", "rooms is 0"),
    ],
)
def test_sizes_that_cannot_be_read_or_generated_are_refused(query: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_scene(SceneSpec(path=f"rooms?{query}"))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("rooms=3", 'Scene falsifier.*cannot read "rooms=3"'),
        ("&", "Scene falsifier.*expected key=value pairs"),
        ("views=3", "3 views are too few"),
        ("height=7", "height is 7; give 8 or more"),
        ("points=0", "points is 0"),
    ],
)
def test_each_capture_has_its_own_sizes(query: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_scene(SceneSpec(path=f"falsifier?{query}"))


@pytest.mark.parametrize("name", PROCEDURAL)
def test_procedural_captures_have_no_image_folders(name: str) -> None:
    with pytest.raises(InputError, match="has no image folder 'images_4'"):
        load_scene(SceneSpec(path=name, images="images_4"))


def test_names_say_what_differs() -> None:
    assert FalsifierSpec().name == "falsifier"
    assert FalsifierSpec(views=16, seed=2).name == "falsifier-views16-seed2"
    assert RoomsSpec().name == "rooms"
    assert RoomsSpec(views=16, points=600).name == "rooms-views16-points600"


def test_a_folder_named_like_a_procedural_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_toy_scene(tmp_path / "rooms")
    monkeypatch.chdir(tmp_path)
    assert load_scene(SceneSpec(path="./rooms")).name == "rooms"
    assert len(load_scene(SceneSpec(path="./rooms")).cameras) == 12
