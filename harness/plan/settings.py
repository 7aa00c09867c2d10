"""The word of `odin-bench plan` that is no key of a study: it changes what is shown, never what is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from harness.config import Config, load
from harness.config.words import option
from odin.errors import InputError

OWN_WORD = "profile"


@dataclass(frozen=True, kw_only=True)
class PlanSettings:
    """Where the prices of a plan come from.

    profile: a profile that `reproduce` wrote; "" takes the newest below out, "none" takes no profile
    """

    profile: str = ""


def read_words(words: Sequence[str]) -> tuple[Config, PlanSettings]:
    """The study's config and the plan's settings from one list of words. Raises InputError."""
    profile, others = "", []
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name.strip() == OWN_WORD:
            profile = value.strip()
        else:
            others.append(word)
    try:
        config = load([f"study={option('study', 'headline')}", *others])
    except InputError as error:
        raise _with_our_word(error, others) from None
    return config, PlanSettings(profile=profile)


def _with_our_word(error: InputError, words: Sequence[str]) -> InputError:
    """An unknown key may be ours misspelt, which the study's config cannot know."""
    for word in words:
        name = word.partition("=")[0].strip()
        close = get_close_matches(name.lower(), [OWN_WORD], n=1, cutoff=0.75)
        if close and f"There is no key {name!r}" in str(error):
            return InputError(f"There is no key {name!r}. The nearest one that `plan` knows is {close[0]!r}.")
    return error


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
