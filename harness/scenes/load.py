"""`load_scene`: one entry for real and procedural captures."""

from __future__ import annotations

from typing import TypeVar
from urllib.parse import parse_qsl

from harness.config.checks import shown
from harness.scenes.spec import CitySpec, FalsifierSpec, OrbitSpec, Progress, RoomsSpec, SceneSpec
from odin.errors import InputError
from pipelines.capture import Capture

PROCEDURAL = ("city", "falsifier", "orbit", "rooms")

_LONGEST = 12  # digits of a size

Sizes = TypeVar("Sizes", RoomsSpec, FalsifierSpec, OrbitSpec, CitySpec)


def load_scene(spec: SceneSpec, *, progress: Progress | None = None) -> Capture:
    """Load and check a scene; everything that could stop a run later is found here.

    spec:     what to load
    progress: called with one line at a time; None is silent

    Nothing is written below a scene folder. Procedural captures are generated once (about half a minute
    for the default rooms) and cached below $ODIN_CACHE, or the user's cache folder.
    Raises InputError, one paragraph that says what is wrong, where, and what to do.
    """
    # Imported late, because dry runs and --help read a SceneSpec and load nothing.
    from harness.scenes.colmap.scene import load_colmap
    from harness.scenes.procedural.city import load_city
    from harness.scenes.procedural.falsifier import load_falsifier
    from harness.scenes.procedural.orbit import load_orbit
    from harness.scenes.procedural.rooms import load_rooms

    tell = progress or (lambda line: None)
    name, _, query = spec.path.partition("?")
    if name in PROCEDURAL:
        if spec.images != "images":
            raise InputError(
                f"Scene {name} is rendered, it has no image folder {spec.images!r}: leave images at its "
                f'default and choose the size in the path instead, as in "{name}?width=60&height=45".'
            )
        if name == "falsifier":
            return load_falsifier(sizes(name, FalsifierSpec, query), test_every=spec.test_every, progress=tell)
        if name == "city":
            return load_city(sizes(name, CitySpec, query), test_every=spec.test_every, progress=tell)
        if name == "orbit":
            return load_orbit(sizes(name, OrbitSpec, query), test_every=spec.test_every, progress=tell)
        return load_rooms(sizes(name, RoomsSpec, query), test_every=spec.test_every, progress=tell)
    return load_colmap(spec, progress=tell)


def sizes(name: str, kind: type[Sizes], query: str) -> Sizes:
    """The sizes in "views=16&width=64"; empty is the default."""
    known = kind.__dataclass_fields__
    values: dict[str, int] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        digits = value.removeprefix("-")
        number = digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST
        if key not in known or key in values or not number:
            raise InputError(
                f'Scene {name}: cannot read "{shown(f"{key}={value}")}". Each of {", ".join(known)} may be given once '
                f'as a whole number, as in "{name}?views=16&width=64&height=48&points=600".'
            )
        values[key] = int(value)
    if query and not values:
        raise InputError(
            f'Scene {name}?{shown(query)}: expected key=value pairs after "?", as in "{name}?views=16&points=600".'
        )
    return kind(**values)
