"""From a study file to its pairs: typed configs, one for each place of the matrix and each comparison.

Hydra composes each option of a group once (it takes tens of milliseconds); the product is formed on plain data.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.config import Config
from harness.config.checks import shown
from harness.config.compose import composed
from harness.config.convert import build
from harness.config.keys import groups, keys
from harness.config.words import overrides
from harness.study.file import Delta, StudyFile, setting
from odin.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Place:
    """One pair of a study before it has an identity.

    where:  axis → label
    config: its arms in the order they run; `mirrored` runs them back again
    arms:   in the order of the file, the first is the baseline
    skipped: why it is left out, or the empty string
    """

    where: Mapping[str, str]
    arms: tuple[str, ...]
    config: Config
    skipped: str


def expand_study(study: StudyFile, words: Sequence[str] = ()) -> tuple[Place, ...]:
    """Every pair of the study, in the order they run; the last axis changes fastest but for the pairs themselves.

    words: `key=value`, as on the command line. A word that names an axis replaces its values (seed=0,1), any other
        one sets the value for all pairs.

    Arms run in mirrored order, and odd seeds start with the other arm: a, b, b, a for even ones and b, a, a, b for odd
    ones, so that over seeds neither arm is always the first. Raises InputError.
    """
    axes, base = _narrowed(study, words)
    composer = _Composer(base)
    places = []
    for values in itertools.product(*axes.values()):
        where = dict(zip(axes, (label for label, _ in values), strict=True))
        reason = next((s.reason for s in study.skip if all(where.get(a) == v for a, v in s.where.items())), "")
        data = composer.data([delta for _, delta in values])
        for arms in study.pairs:
            places.append(Place(where=where, arms=arms, config=_config(study, where, data, arms), skipped=reason))
    return tuple(places)


def _config(study: StudyFile, where: Mapping[str, str], data: dict[str, Any], arms: tuple[str, ...]) -> Config:
    seed = data["seed"]
    odd = isinstance(seed, int) and seed % 2 == 1
    order = arms[::-1] if odd else arms
    try:
        return build(Config, data | {"study": data["study"] | {"arms": list(order)}})
    except InputError as error:
        place = " ".join(f"{axis}={label}" for axis, label in where.items())
        raise InputError(f"Study {study.name}, {place or 'its only place'}, {' and '.join(arms)}: {error}") from error


class _Composer:
    """Plain configs from deltas: options of groups first, then single keys."""

    def __init__(self, base: Sequence[str]) -> None:
        self._base = list(base)
        self._plain = composed(overrides(base))
        self._options: dict[tuple[str, str], Any] = {}

    def data(self, deltas: Sequence[Delta]) -> dict[str, Any]:
        """The config with these deltas on top of the base."""
        found = copy.deepcopy(self._plain)
        settings = [item for delta in deltas for item in delta.items()]
        for key, value in settings:
            if key in groups():
                found[key] = copy.deepcopy(self._option(key, shown(value)))
        for key, value in settings:
            if key not in groups():
                _put(found, key, value)
        return found

    def _option(self, group: str, value: str) -> Any:
        if (group, value) not in self._options:
            self._options[group, value] = composed(overrides([*self._base, f"{group}={value}"]))[group]
        return self._options[group, value]


def _put(data: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    for part in path:
        data = data[part]
    data[last] = value


def _narrowed(study: StudyFile, words: Sequence[str]) -> tuple[dict[str, tuple[tuple[str, Delta], ...]], list[str]]:
    """The axes and the base words after the command line's words."""
    axes = dict(study.axes)
    base = [f"{key}={shown(value)}" for key, value in study.base.items()]
    named = {key: axis for axis, values in axes.items() for _, delta in values for key in delta}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            overrides([word])  # says what is wrong with it
        key = name if name == "out" else setting(name)
        axis = named.get(key)
        if axis is None:
            base.append(word)
            continue
        if any(set(delta) != {key} for _, delta in axes[axis]):
            raise InputError(
                f"{word}: axis {axis} of study {study.name} varies {name} together with other settings. "
                "Copy the study file and change it there."
            )
        axes[axis] = tuple(_values(key, text))
    return axes, base


def _values(key: str, text: str) -> Iterator[tuple[str, Delta]]:
    import yaml

    scene = key == "scene" or keys().get(key) is str
    for item in [text] if scene and "," in text and "?" in text else text.split(","):
        try:
            plain = item if key in groups() or keys().get(key) is str else yaml.safe_load(item)
        except (ValueError, yaml.YAMLError) as error:
            raise InputError(f"{key}={item} cannot be read as a value: {' '.join(str(error).split())}.") from error
        yield shown(plain), {key: plain}
