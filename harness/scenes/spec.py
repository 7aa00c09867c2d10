"""Which scene to load and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.config.checks import expect_utf8
from odin.errors import InputError

Progress = Callable[[str], None]
"""Called with one line of text whenever there is something to tell the user."""


def folder_name(scene: Path) -> str:
    """What a scene folder is called in records; bytes of its name that are no UTF-8, which these cannot hold, are
    escaped."""
    return scene.resolve().name.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, kw_only=True)
class SceneSpec:
    """A scene and the way it is read.

    path:         folder SCENE with images and a COLMAP model in sparse/0 (or sparse), or the name of a
                  procedural capture, optionally with sizes: "rooms", "rooms?views=16&width=64&height=48".
                  The name wins over a folder of that name; write "./rooms" for the folder.
    images:       image folder below SCENE: images, images_2, images_4, … Cameras are those of `images`
                  and are rescaled to the size of the files found here.
    test_every:   views at index 0, test_every, 2·test_every, … of the loaded views in name order are
                  held out; 0 trains on all views
    skip_missing: load the views whose image file exists instead of failing when some are missing

    Raises InputError for a value that cannot mean anything.
    """

    path: str
    images: str = "images"
    test_every: int = 8
    skip_missing: bool = False

    def __post_init__(self) -> None:
        if not self.path.strip():
            raise InputError(
                "The scene path is empty: give a scene folder, or the name of a procedural capture such as rooms."
            )
        expect_utf8("scene", self.path)
        expect_utf8("images", self.images)
        if not self.images.strip():
            raise InputError("The name of the image folder is empty: give images, images_2, images_4 or the like.")
        if self.test_every < 0:
            raise InputError(
                f"test_every is {self.test_every}: give 0 to train on all views, or the distance between "
                "test views in name order (8 is the convention)."
            )


@dataclass(frozen=True, kw_only=True)
class RoomsSpec:
    """Sizes of the procedural capture *rooms*; the defaults are the capture the studies use.

    views:         cameras, spread evenly over the rooms
    width, height: pixels
    points:        SfM-like points with tracks
    rooms:         rooms in a row
    seed:          of the sampled points and their detection; cameras and meshes do not depend on it

    Raises InputError for sizes that cannot be generated.
    """

    views: int = 96
    width: int = 120
    height: int = 90
    points: int = 8000
    rooms: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        _require("rooms", self, {"width": 8, "height": 8, "points": 1, "rooms": 1, "seed": 0})
        if self.views < 2 * self.rooms:
            raise InputError(
                f"Scene rooms: {self.views} views are too few for {self.rooms} room(s); give at least two "
                "per room, so that points can be seen twice."
            )

    @property
    def name(self) -> str:
        """ "rooms", followed by every size that is not the default's, such as "rooms-views16-points600"."""
        return _label("rooms", self, RoomsSpec())


@dataclass(frozen=True, kw_only=True)
class FalsifierSpec:
    """Sizes of the procedural capture *falsifier*; the defaults are the capture the studies use.

    views:         cameras, one half far and one half near. Of the default 74 every 8th is a test view, which
                   leaves 32 far and 32 near ones, a whole number of steps of 4, 8 or 16 views in each of
                   K = 2 or 4 regions.
    width, height: pixels
    points:        SfM-like points with tracks
    seed:          of the sampled points and their detection; cameras and meshes do not depend on it

    Raises InputError for sizes that cannot be generated.
    """

    views: int = 74
    width: int = 120
    height: int = 90
    points: int = 8000
    seed: int = 0

    def __post_init__(self) -> None:
        _require("falsifier", self, {"width": 8, "height": 8, "points": 1, "seed": 0})
        if self.views < 4:
            raise InputError(
                f"Scene falsifier: {self.views} views are too few; give at least two far and two near ones, "
                "so that points can be seen twice."
            )

    @property
    def name(self) -> str:
        """ "falsifier", followed by every size that is not the default's, such as "falsifier-views16"."""
        return _label("falsifier", self, FalsifierSpec())


@dataclass(frozen=True, kw_only=True)
class OrbitSpec:
    """Sizes of the procedural capture *orbit*; the defaults are the capture the studies use.

    views:         cameras on three rings around the table
    width, height: pixels
    points:        SfM-like points with tracks
    seed:          of the sampled points and their detection; cameras and meshes do not depend on it

    Raises InputError for sizes that cannot be generated.
    """

    views: int = 96
    width: int = 120
    height: int = 90
    points: int = 8000
    seed: int = 0

    def __post_init__(self) -> None:
        _require("orbit", self, {"width": 8, "height": 8, "points": 1, "seed": 0})
        if self.views < 6:
            raise InputError(
                f"Scene orbit: {self.views} views are too few; give at least two on each of the three rings."
            )

    @property
    def name(self) -> str:
        """ "orbit", followed by every size that is not the default's, such as "orbit-views24"."""
        return _label("orbit", self, OrbitSpec())


@dataclass(frozen=True, kw_only=True)
class CitySpec:
    """Sizes of the procedural capture *city*, which grows with the number of views.

    views:         aerial cameras, any number; the city has the size they survey
    width, height: pixels
    points:        SfM-like points with tracks; raise it with the views (32 per view is the default's density)
    seed:          of the sampled points and their detection; cameras and meshes do not depend on it

    Raises InputError for sizes that cannot be generated.
    """

    views: int = 256
    width: int = 120
    height: int = 90
    points: int = 8192
    seed: int = 0

    def __post_init__(self) -> None:
        _require("city", self, {"views": 4, "width": 8, "height": 8, "points": 1, "seed": 0})

    @property
    def name(self) -> str:
        """ "city", followed by every size that is not the default's, such as "city-views2048-points65536"."""
        return _label("city", self, CitySpec())


Spec = RoomsSpec | FalsifierSpec | OrbitSpec | CitySpec


def _require(kind: str, spec: Spec, lowest: dict[str, int]) -> None:
    for key, least in lowest.items():
        if getattr(spec, key) < least:
            raise InputError(f"Scene {kind}: {key} is {getattr(spec, key)}; give {least} or more.")


def _label(kind: str, spec: Spec, default: Spec) -> str:
    changed = [key for key, value in asdict(default).items() if getattr(spec, key) != value]
    return "-".join([kind, *(f"{key}{getattr(spec, key)}" for key in changed)])
