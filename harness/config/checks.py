"""How a wrong value is refused: what it was, what was expected, what to do."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable

from odin.errors import InputError

LONGEST = 200  # characters of a value in a message; beyond it the message is no paragraph any more


def shown(value: object) -> str:
    """A value as a user would write it on the command line, cut where it is very long."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, tuple | list):
        text = "[" + ",".join(shown(item) for item in value) + "]"
    else:
        text = json.dumps(value, default=str)
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def expect_utf8(key: str, text: str) -> None:
    """Raise InputError for a path that records could not name: its bytes that are no UTF-8 come as half characters."""
    half = any("\ud800" <= letter <= "\udfff" for letter in text)
    expect(
        not half,
        key=key,
        value=text,
        expected="text in UTF-8",
        advice="Rename the file or folder, or give a link to it another name.",
    )


def expect(accepted: bool, *, key: str, value: object, expected: str, advice: str) -> None:
    """Raise InputError unless `accepted`. `expected` completes "expected …", `advice` is a full sentence."""
    if not accepted:
        raise InputError(f"{key}={shown(value)} is refused: expected {expected}. {advice}")


def expect_at_least(least: int, *, key: str, value: int, advice: str, most: int | None = None) -> None:
    """Raise InputError for a whole number outside least…most."""
    inside = value >= least and (most is None or value <= most)
    expected = f"a whole number of at least {least}" + ("" if most is None else f" and at most {most}")
    expect(inside, key=key, value=value, expected=expected, advice=advice)


def expect_one_of(value: str, options: Iterable[str], *, key: str) -> None:
    """Raise InputError unless `value` is one of the options; the message lists them and the nearest one."""
    known = list(options)
    if value not in known:
        raise InputError(
            f"{key}={value} is refused: expected one of {', '.join(known)}. "
            f"The nearest one is {key}={nearest(value, known)}."
        )


def nearest(word: str, options: Iterable[str]) -> str:
    """The option most like the word (there must be one); ties go to the shorter option."""
    # cutoff 0: a wrong guess costs the reader nothing, no guess costs a look into the documentation.
    by_length = sorted(options, key=len)
    lowered = {option.lower(): option for option in reversed(by_length)}
    return lowered[difflib.get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.0)[0]]
