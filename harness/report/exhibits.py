"""What the report shows of an exhibit, as `odin-bench figures` leaves it: made, or the command that makes it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.store.files import read_json

INDEX = "exhibits.json"


@dataclass(frozen=True, kw_only=True)
class Shown:
    """One exhibit.

    command:  makes its cells or tables
    missing:  what it lacks; the empty string where it was made
    alt:      text in place of the picture
    picture:  PNG beside the index; None for a table
    columns, rows: its numbers as text
    verdicts: targets with what was reached, for the headline
    """

    name: str
    title: str
    command: str
    missing: str = ""
    caption: str = ""
    alt: str = ""
    picture: str | None = None
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    verdicts: tuple[dict[str, str], ...] = ()

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)

    @classmethod
    def load(cls, path: Path) -> list[Shown]:
        """All exhibits of an index; none where it is absent or of another version."""
        try:
            data = read_json(path)
            return [cls(**{**one, "columns": tuple(one["columns"]), "rows": tuple(map(tuple, one["rows"])),
                           "verdicts": tuple(one["verdicts"])}) for one in data]  # fmt: skip
        except (OSError, ValueError, TypeError, KeyError):
            return []
