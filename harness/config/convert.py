"""From composed plain data to the typed config."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from harness.config.checks import expect, nearest
from odin.errors import InputError

T = TypeVar("T")

LARGEST = 10**300  # whole numbers beyond it do not convert to a float
_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def build(cls: type[T], data: Mapping[str, Any], prefix: str = "") -> T:
    """The dataclass with these values; every field must be there and nothing else, each of its type."""
    hints = _hints(cast(Hashable, cls))
    for name in data:
        if name not in hints:
            raise InputError(
                f"There is no key {prefix + str(name)!r}. "
                f"The nearest valid one is {prefix + nearest(str(name), hints)!r}."
            )
    missing = [prefix + name for name in hints if name not in data]
    if missing:
        raise InputError(f"The config has no value for {', '.join(missing)}. Restore it in harness/conf.")
    return cls(**{name: _field(prefix + name, data[name], kind) for name, kind in hints.items()})


@cache
def _hints(cls: Hashable) -> dict[str, Any]:
    """Evaluating annotations takes longer than all else here, and a study builds hundreds of configs."""
    return get_type_hints(cls)


def _field(key: str, value: Any, kind: Any) -> Any:
    if is_dataclass(kind) and isinstance(kind, type) and isinstance(value, Mapping):
        return build(kind, value, prefix=f"{key}.")
    options = get_args(kind) if get_origin(kind) is UnionType else (kind,)
    for option in options:
        if _fits(value, option):
            return _as(value, option)
    expect(
        False,
        key=key,
        value=value,
        expected=", or ".join(_named(option) for option in options),
        advice="Write the value as in `odin-bench reproduce headline --dry-run`.",
    )


def _fits(value: Any, kind: Any) -> bool:
    """Whether a YAML value is of the kind; a bool is no number, a whole number is a number."""
    if get_origin(kind) is tuple:
        return isinstance(value, list) and all(_fits(item, get_args(kind)[0]) for item in value)
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    if kind is float:
        return isinstance(value, float) or (isinstance(value, int) and abs(value) < LARGEST)
    return isinstance(value, kind)


def _as(value: Any, kind: Any) -> Any:
    if get_origin(kind) is tuple:
        return tuple(_as(item, get_args(kind)[0]) for item in value)
    # + 0.0: -0.0 and 0.0 are the same setting and must be the same cell.
    return float(value) + 0.0 if kind is float else value


def _named(kind: Any) -> str:
    if get_origin(kind) is tuple:
        return f"a list like [{'20,40' if get_args(kind)[0] is int else 'a,b'}]"
    return "null" if kind is type(None) else _NAMES.get(kind, str(kind))
