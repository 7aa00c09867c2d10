"""From the user's `key=value` words to overrides in Hydra's grammar.

Hydra's grammar gives a meaning to quotes, brackets, commas, `=`, `$` and spaces. A path may hold any of them,
so text is quoted here and reaches the config exactly as typed. Numbers, switches and lists are Hydra's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from harness.config.checks import nearest
from harness.config.keys import find_key, groups, keys
from odin.errors import InputError

_INTERPOLATION = re.compile(r"(\\*)\$\{")
_QUOTE_OR_END = re.compile(r"(\\*)('|\Z)")


def overrides(words: Sequence[str]) -> list[str]:
    """Hydra overrides for the words, group choices first; of two words for one key the later one counts."""
    chosen: dict[str, str] = {}
    values: dict[str, str] = {}
    for word in words:
        name, value = _split(word)
        if name not in groups():
            key = find_key(name)
            values[key] = _value(key, value)
        elif name == "scene":
            _choose_scene(value, chosen, values)
        else:
            chosen[name] = option(name, value)
    return [f"{key}={value}" for key, value in (chosen | values).items()]


def quoted(text: str) -> str:
    """The text as a Hydra value that composes to exactly this text."""
    # OmegaConf first: backslashes before ${ are doubled, then one more makes it literal.
    literal = _INTERPOLATION.sub(lambda m: m[1] * 2 + "\\${", text)
    # Hydra around it: inside quotes a backslash counts only in front of a quote or the end.
    escaped = _QUOTE_OR_END.sub(lambda m: m[1] * 2 + ("\\'" if m[2] else ""), literal)
    return f"'{escaped}'"


def _split(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals:
        raise InputError(
            f"The word {word!r} is not of the form KEY=VALUE. Write for example steps=150, or scene={word} "
            "if this is the folder of a scene."
        )
    return name.strip(), value


def option(group: str, value: str) -> str:
    """A group's option, or InputError that lists them."""
    options = groups()[group]
    if value not in options:
        raise InputError(
            f"{group}={value} is not an option. Options of {group}: {', '.join(options)}. "
            f"The nearest one is {group}={nearest(value, options)}."
        )
    return value


def _choose_scene(value: str, chosen: dict[str, str], values: dict[str, str]) -> None:
    """A scene's name, or else the path of a folder. The folder is opened by the run, not here."""
    options = groups()["scene"]
    values.pop("scene.path", None)
    if value in options:
        chosen["scene"] = value
        return
    misspelt = get_close_matches(value.lower(), options, n=1, cutoff=0.7)
    if misspelt and "/" not in value and not Path(value).exists():
        raise InputError(
            f"scene={value} is neither a folder here nor a scene of that name. "
            f"The nearest scene is scene={misspelt[0]}; a folder is given as scene=PATH."
        )
    values["scene.path"] = quoted(value)


def _value(key: str, value: str) -> str:
    """The value in Hydra's grammar, by the type of the key."""
    kind = keys()[key]
    if kind is str:
        return quoted(value)
    if value.strip() == "":
        raise InputError(f"{key}= has no value. Give one, or leave the word out to keep the default.")
    return _listed(value, text=kind == tuple[str, ...]) if _is_list(kind) else value


def _is_list(kind: Any) -> bool:
    return any(getattr(part, "__origin__", None) is tuple for part in (kind, *get_args(kind)))


def _listed(value: str, *, text: bool) -> str:
    """`a,b` and `a` stand for `[a,b]` and `[a]`, so that a shell needs no quotes; words of text are quoted."""
    bare = value.strip()
    if bare.lower() == "null":
        return bare
    inner = bare[1:-1] if bare.startswith("[") and bare.endswith("]") else bare
    if not text:
        return f"[{inner}]"
    return f"[{','.join(quoted(word.strip()) for word in inner.split(',') if word.strip())}]"
