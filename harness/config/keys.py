"""The keys a user may set, read off the dataclasses, and the short words that stand for them."""

from __future__ import annotations

from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from harness.config.checks import nearest
from harness.config.schema import Config
from odin.errors import InputError

CONF = Path(__file__).resolve().parents[1] / "conf"


@cache
def groups() -> dict[str, tuple[str, ...]]:
    """Config groups and their options: the folders of `harness/conf` and the files in them."""
    return {
        folder.name: tuple(sorted(option.stem for option in folder.glob("*.yaml")))
        for folder in sorted(CONF.iterdir())
        if folder.is_dir()
    }


@cache
def keys() -> dict[str, Any]:
    """Dotted key → type, for every field of the config."""
    found: dict[str, Any] = {}
    for name, kind in get_type_hints(Config).items():
        if is_dataclass(kind):
            found |= {f"{name}.{inner}": hint for inner, hint in get_type_hints(kind).items()}
        else:
            found[name] = kind
    return found


@cache
def short_words() -> dict[str, str]:
    """Last part of a key → the key, wherever only one key ends in it: `steps` is `scale.steps`."""
    endings: dict[str, list[str]] = {}
    for key in keys():
        endings.setdefault(key.rpartition(".")[2], []).append(key)
    return {end: full[0] for end, full in endings.items() if len(full) == 1 and end not in groups()}


def find_key(word: str) -> str:
    """The dotted key that a word names. Raises InputError with the nearest valid one."""
    if word in keys():
        return word
    if word in short_words():
        return short_words()[word]
    shared = [key for key in keys() if key.endswith(f".{word}")]
    if shared:
        raise InputError(f"The key {word!r} could be any of {', '.join(shared)}. Write the full key.")
    # The right name in the wrong group is likelier meant than a similar name in the group.
    last = word.rpartition(".")[2]
    near = short_words().get(last) or nearest(word, [*groups(), *short_words(), *keys()])
    raise InputError(
        f"There is no key {word!r}. The nearest valid one is {near!r}. "
        "`odin-bench reproduce headline --dry-run` prints every key with its value."
    )
