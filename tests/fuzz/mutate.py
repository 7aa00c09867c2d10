"""Mutations of bytes, of text and of JSON, all from one generator: the same seed gives the same input."""

from __future__ import annotations

import json
import random
import re
from typing import Any

# Values that counts, sizes, ids and floats break on, little-endian.
_WORDS = (
    b"\0\0\0\0\0\0\0\0", b"\xff" * 8, b"\xff" * 7 + b"\x7f", b"\0" * 7 + b"\x80", b"\1" + b"\0" * 7,
    b"\0\0\0\0\1\0\0\0", b"\0\0\0\0\0\0\xf0\x7f", b"\0\0\0\0\0\0\xf8\x7f", b"\xff\xff\xff\x7f\0\0\0\0",
)  # fmt: skip
_TOKENS = (
    "nan", "inf", "-inf", "1e400", "-1", "0", "4294967296", "9223372036854775808", "1" * 400, "1" * 5000, "x", "",
    "1.5", "0x10", "#", "\0", "\x1b[2J", "é", "-0.0", "PINHOLE", "1 2", "\n", "../../x",
)  # fmt: skip
_NUMBER = re.compile(rb"-?\d[\d.e+-]*")
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, 1.5, float("nan"), float("inf"), -float("inf"), 1e308,
    "", "x", "nan", "../../x", "\0", "é" * 300, [], {}, [[]], [None], {"": {}}, [0] * 1000,
)  # fmt: skip
DEEP = 100_000


def mutated(rng: random.Random, data: bytes) -> bytes:
    """One to three changes of any kind."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choice(_CHANGES)(rng, data)
    return data


def _flip(rng: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _drop(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at + rng.randrange(1, 40) :]


def _repeat(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    part = data[at : at + rng.randrange(1, 200)]
    return data[:at] + part * rng.randrange(2, 5) + data[at + len(part) :]


def _overwrite(rng: random.Random, data: bytes) -> bytes:
    """A count, an id or a float replaced by one that means trouble."""
    word = rng.choice(_WORDS)[: rng.choice((1, 2, 4, 8, 8))]
    at = rng.randrange(len(data) + 1)
    return data[:at] + word + data[at + len(word) :]


def _token(rng: random.Random, data: bytes) -> bytes:
    """A number in text replaced by something else."""
    start = rng.randrange(len(data) + 1)
    found = _NUMBER.search(data, start) or _NUMBER.search(data)
    if found is None:
        return _flip(rng, data)
    return data[: found.start()] + rng.choice(_TOKENS).encode() + data[found.end() :]


_CHANGES = (_flip, _cut, _drop, _repeat, _overwrite, _overwrite, _token, _token)


def mutated_json(rng: random.Random, text: str) -> bytes:
    """The document with values of other types, kinds and depths, keys renamed or gone; sometimes only its bytes."""
    if rng.random() < 0.2:
        return mutated(rng, text.encode())
    if rng.random() < 0.01:
        return deep(rng)
    value = json.loads(text)
    for _ in range(rng.choice((1, 1, 2, 3))):
        value = changed(rng, value)
    return json.dumps(value).encode()


def deep(rng: random.Random) -> bytes:
    """JSON that nests deeper than a stack."""
    opening, closing = rng.choice((("[", "]"), ('{"a":', "}")))
    return (opening * DEEP + "1" + closing * DEEP * rng.randrange(2)).encode()


def changed(rng: random.Random, value: Any) -> Any:
    """One place of a JSON value changed."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.1:
        return rng.choice(_VALUES)
    value = value.copy()
    key = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
    how = rng.random()
    if how < 0.1:
        del value[key]
    elif how < 0.2 and isinstance(value, dict):
        value[str(key) + rng.choice("x_ ")] = value.pop(key)
    elif how < 0.2:
        value.insert(key, value[rng.randrange(len(value))])
    else:
        value[key] = changed(rng, value[key])
    return value
