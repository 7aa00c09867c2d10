"""SceneSpec, RoomsSpec and the choice between folders and procedural captures."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.scenes import RoomsSpec, SceneSpec, load_scene
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


def test_rooms_has_no_image_folders() -> None:
    with pytest.raises(InputError, match="has no image folder 'images_4'"):
        load_scene(SceneSpec(path="rooms", images="images_4"))


def test_names_of_rooms_say_what_differs() -> None:
    assert RoomsSpec().name == "rooms"
    assert RoomsSpec(views=16, points=600).name == "rooms-views16-points600"


def test_a_folder_named_like_a_procedural_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_toy_scene(tmp_path / "rooms")
    monkeypatch.chdir(tmp_path)
    assert load_scene(SceneSpec(path="./rooms")).name == "rooms"
    assert len(load_scene(SceneSpec(path="./rooms")).cameras) == 12
