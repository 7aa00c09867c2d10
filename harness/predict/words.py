"""Words of `predict`: those of a study, with several rank counts and a virtual engine of committed prices."""

from __future__ import annotations

from collections.abc import Sequence

from harness.config import Config, load
from odin.errors import InputError

RANKS = (1, 2, 4, 8)
_DEFAULTS = ("engine=virtual", "compute=rtx4090", "steps=40", "mirrored=false")


def split_words(words: Sequence[str]) -> tuple[Config, tuple[int, ...]]:
    """The configuration at the largest rank count, and all rank counts, ascending. Raises InputError.

    A named cluster brings its link; without one the link is the fit to the paper's exposed share of the pipeline.
    """
    given = {word.partition("=")[0].strip(): word.partition("=")[2] for word in words}
    ranks = _ranks(given.pop("ranks", given.pop("engine.ranks", None)))
    rest = [word for word in words if word.partition("=")[0].strip() not in ("ranks", "engine.ranks")]
    if "link" not in given:
        rest = [_link(given), *rest]
    return load([*_DEFAULTS, *rest, f"ranks={ranks[-1]}"]), ranks


def _link(given: dict[str, str]) -> str:
    if given.get("cluster", "local") != "local":
        return "link=cluster"
    return f"link=fig1-{given.get('pipeline', '3dgs')}"


def _ranks(text: str | None) -> tuple[int, ...]:
    if text is None:
        return RANKS
    try:
        found = sorted({int(part) for part in text.strip("[] ").split(",")})
    except ValueError as error:
        raise InputError(f"ranks={text} is refused: expected whole numbers like ranks=1,2,4,8.") from error
    if found[0] < 1:
        raise InputError(f"ranks={text} is refused: expected whole numbers of at least 1, like ranks=1,2,4,8.")
    return tuple(found)
