"""Words of `odin-bench plan` that are not keys of a study: they change what is shown, never what is trained."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from harness.config import Config, load
from harness.config.checks import expect, expect_one_of
from harness.config.words import option
from odin.errors import InputError

_SIZE = re.compile(r"(\d+(?:\.\d+)?)(B|KB|MB|GB|TB)?", re.IGNORECASE)
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


@dataclass(frozen=True, kw_only=True)
class PlanSettings:
    """How SAS decides and where its prices come from.

    sas:            "default", or "paper", which also blocks windows above the coupling limit
    coupling_limit: largest coupling that a candidate window may have under sas=paper
    memory:         bytes that overlap may keep alive beyond a synchronized trainer's state; None is no limit
    profile:        a profile that `reproduce` wrote; "" takes the newest below out, "none" takes no profile
    """

    sas: str = "default"
    coupling_limit: float = 0.2
    memory: int | None = None
    profile: str = ""

    def __post_init__(self) -> None:
        expect_one_of(self.sas, ("default", "paper"), key="sas")
        expect(
            0 <= self.coupling_limit <= 1,
            key="coupling_limit",
            value=self.coupling_limit,
            expected="a number from 0 to 1",
            advice="It is a Jaccard similarity; 1 blocks nothing.",
        )


def read_words(words: Sequence[str]) -> tuple[Config, PlanSettings]:
    """The study's config and the plan's settings from one list of words. Raises InputError."""
    own: dict[str, str] = {}
    others = []
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name.strip() in PlanSettings.__dataclass_fields__:
            own[name.strip()] = value.strip()
        else:
            others.append(word)
    settings = PlanSettings(**_typed(own))
    if "coupling_limit" in own and settings.sas != "paper":
        raise InputError("coupling_limit is only used by sas=paper. Add sas=paper, or leave coupling_limit out.")
    try:
        return load([f"study={option('study', 'headline')}", *others]), settings
    except InputError as error:
        raise _with_our_words(error, others) from None


def _with_our_words(error: InputError, words: Sequence[str]) -> InputError:
    """An unknown key may be one of ours misspelt, which the study's config cannot know."""
    for word in words:
        name = word.partition("=")[0].strip()
        close = get_close_matches(name.lower(), list(PlanSettings.__dataclass_fields__), n=1, cutoff=0.75)
        if close and f"There is no key {name!r}" in str(error):
            return InputError(f"There is no key {name!r}. The nearest one that `plan` knows is {close[0]!r}.")
    return error


def _typed(own: dict[str, str]) -> dict[str, Any]:
    typed: dict[str, Any] = dict(own)
    if "coupling_limit" in own:
        typed["coupling_limit"] = _number("coupling_limit", own["coupling_limit"])
    if "memory" in own:
        typed["memory"] = None if own["memory"].lower() in ("none", "null") else _bytes(own["memory"])
    return typed


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{key}={text} is refused: expected a number, as in {key}=0.2.") from None


def _bytes(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise InputError(f"memory={text} is refused: expected a size in bytes or with a unit, as in memory=200MB.")
    return int(float(match[1]) * _UNITS[(match[2] or "").upper()])


def profile_path(settings: PlanSettings, out: Path) -> Path | None:
    """The profile file to price phases with, or None. Raises InputError when a named one is not there."""
    if settings.profile == "none":
        return None
    if settings.profile:
        path = Path(settings.profile)
        if not path.is_file():
            raise InputError(
                f"profile={path} is not a file. `reproduce headline` writes profiles to OUT/profiles; profile=none "
                "plans without one."
            )
        return path
    found = sorted((out / "profiles").glob("*.json"), key=lambda path: path.stat().st_mtime)
    return found[-1] if found else None
