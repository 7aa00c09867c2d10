"""A study file: what all pairs share, what varies, and which arms are compared.

about: One sentence.
set: {scale: smoke, link: none, padded: false}   # words as on the command line, for all pairs
axes:                                            # the study is the product of the axes and the pairs
  scene: [rooms, orbit]
  pipeline: [3dgs, 2dgs]
  seed: [0, 1, 2]
  capture: [{scene: data/bonsai, images: images_4}]   # settings that vary together, under a name of one's own
pairs: [[barrier, quality], [barrier, predicted]]
skip:                                            # places of the matrix that are left out, with a reason
  - {scene: orbit, pipeline: 2dgs, reason: the table has no tracks below it}
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config.checks import nearest, shown
from harness.config.keys import find_key, groups
from odin.errors import InputError

DATA = "$ODIN_DATA"
STUDIES = Path(__file__).with_name("studies")
PARTS = ("about", "set", "axes", "pairs", "skip")
# What a study file says in another place.
_OWN = {
    "study": "pairs",
    "study.arms": "pairs",
    "study.name": "the file's name",
    "out": "the command line (out=FOLDER)",
}

Delta = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Skip:
    """A place of the matrix that is left out: axis → label, and why."""

    where: Mapping[str, str]
    reason: str


@dataclass(frozen=True, kw_only=True)
class StudyFile:
    """A study as written, its names checked. Keys are group names or dotted keys.

    base:  settings of all pairs
    axes:  axis → its values, each a label and the settings that it stands for
    pairs: arms that run in one allocation, the first is what the others are divided by
    """

    name: str
    about: str
    base: Delta
    axes: Mapping[str, tuple[tuple[str, Delta], ...]]
    pairs: tuple[tuple[str, ...], ...]
    skip: tuple[Skip, ...]


def load_study(study: str) -> StudyFile:
    """The study of that name (harness/study/studies), or of that path. Raises InputError."""
    path = _find(study)
    import yaml

    try:
        data = yaml.safe_load(with_data(f"Study {study}", path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise InputError(f"The study {path} cannot be read: {' '.join(str(error).split())}.") from error
    return read_study(path.stem, data)


def read_study(name: str, data: object) -> StudyFile:
    """A study from its plain data. Raises InputError that names the nearest valid word for an unknown one."""
    whole = _mapping(name, "the file", data)
    for part in whole:
        if part not in PARTS:
            raise InputError(
                f"Study {name}: there is no part {part!r}. The nearest valid one is {nearest(part, PARTS)!r}."
            )
    axes = {axis: _axis(name, axis, values) for axis, values in _mapping(name, "axes", whole.get("axes", {})).items()}
    return StudyFile(
        name=name,
        about=str(whole.get("about", "")),
        base=_delta(name, _mapping(name, "set", whole.get("set", {}))),
        axes=axes,
        pairs=_pairs(name, whole.get("pairs")),
        skip=tuple(_skip(name, axes, entry) for entry in _list(name, "skip", whole.get("skip", []))),
    )


def setting(word: str) -> str:
    """The group or dotted key that a word of a study names. Raises InputError."""
    key = word if word in groups() else find_key(word)
    if key in _OWN:
        raise InputError(f"{word} cannot be set in a study: that is said by {_OWN[key]}.")
    return key


def with_data(what: str, text: str) -> str:
    """The text with $ODIN_DATA, the folder of captures, in place. Raises InputError where it is needed and not set.

    what: whose text it is, for that sentence
    """
    if DATA not in text:
        return text
    folder = os.environ.get(DATA[1:], "")
    if not folder:
        raise InputError(
            f"{what} trains on captures below {DATA}, which is not set. Set it to the folder that holds them, "
            "one folder in COLMAP layout each."
        )
    return text.replace(DATA, str(Path(folder).expanduser().resolve()))


def _find(study: str) -> Path:
    if Path(study).suffix in (".yaml", ".yml"):
        return Path(study)
    known = sorted(path.stem for path in STUDIES.glob("*.yaml"))
    if study not in known:
        raise InputError(
            f"There is no study {study!r}. Studies: {', '.join(known)}; the nearest one is {nearest(study, known)}. "
            "A study of your own is given as the path of its .yaml file."
        )
    return STUDIES / f"{study}.yaml"


def _axis(name: str, axis: str, values: object) -> tuple[tuple[str, Delta], ...]:
    found = []
    for value in _list(name, axis, values):
        delta = value if isinstance(value, Mapping) else {axis: value}
        label = ",".join(shown(v) for v in delta.values())
        found.append((label, _delta(name, _mapping(name, axis, delta))))
    if len({label for label, _ in found}) < len(found) or not found:
        raise InputError(f"Study {name}: axis {axis} needs at least one value, and none twice.")
    return tuple(found)


def _delta(name: str, settings: Mapping[str, Any]) -> Delta:
    try:
        return {setting(word): value for word, value in settings.items()}
    except InputError as error:
        raise InputError(f"Study {name}: {error}") from error


def _pairs(name: str, pairs: object) -> tuple[tuple[str, ...], ...]:
    found = tuple(tuple(map(str, _list(name, "pairs", pair))) for pair in _list(name, "pairs", pairs))
    if not found or any(not pair or len(set(pair)) < len(pair) for pair in found):
        raise InputError(
            f"Study {name}: pairs is a list of arms to compare, for example [[barrier, quality]], none of them twice; "
            "a single arm is a run that nothing is compared with."
        )
    return found


def _skip(name: str, axes: Mapping[str, Sequence[tuple[str, Delta]]], entry: object) -> Skip:
    whole = dict(_mapping(name, "skip", entry))
    reason = str(whole.pop("reason", "")).strip()
    if not reason or not whole:
        raise InputError(f"Study {name}: a skip names places of the axes and a reason, not {shown(entry)}.")
    for axis, label in whole.items():
        if axis not in axes:
            raise InputError(
                f"Study {name}: skip names the axis {axis!r}; the nearest one is {nearest(axis, axes or [axis])!r}."
            )
        labels = [known for known, _ in axes[axis]]
        if shown(label) not in labels:
            raise InputError(
                f"Study {name}: skip names {axis}={shown(label)}; the nearest value is {nearest(shown(label), labels)}."
            )
    return Skip(where={axis: shown(label) for axis, label in whole.items()}, reason=reason)


def _mapping(name: str, part: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InputError(f"Study {name}: {part} is written as names with values (name: value), not {shown(value)}.")
    return value


def _list(name: str, part: str, value: object) -> Sequence[Any]:
    if not isinstance(value, list):
        raise InputError(f"Study {name}: {part} is a list like [a, b], not {shown(value)}.")
    return value
