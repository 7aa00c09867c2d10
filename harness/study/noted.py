"""Which cells belong to which pair of a study, as `pairs.json` notes it beside the records.

A plan names paths of the machine that it was made on; this names places of the matrix and records alone, so that
records can move, or come with a clone, and still be found.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.store.files import read_json

PAIRS = "pairs.json"


def plain_label(label: str) -> str:
    """A scene's folder by its last part."""
    return ",".join(Path(part).name if part.startswith("/") else part for part in label.split(","))


def plain_place(where: Mapping[str, str]) -> dict[str, str]:
    """A place of the matrix without paths."""
    return {axis: plain_label(label) for axis, label in where.items()}


def noted_cells(folder: Path, where: Mapping[str, str]) -> list[str]:
    """Records that were noted for a pair of a study, by its place; none where nothing readable is noted.

    folder: of the study; where: axis → label
    """
    try:
        noted: list[dict[str, Any]] = read_json(folder / PAIRS)
        found = [one["cells"] for one in noted if one["where"] == plain_place(where)]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [cell for cells in found for cell in cells if cell is not None]
