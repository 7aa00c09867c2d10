"""Sizes in memory as a user writes them: 200MB, 1.5 GB without the space, or a number of bytes."""

from __future__ import annotations

import math
import re

from harness.config.checks import shown
from odin.errors import InputError

_SIZE = re.compile(r"(\d+(?:\.\d+)?)(B|KB|MB|GB|TB)?", re.IGNORECASE)
_LARGEST = 2.0**63
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def read_bytes(key: str, text: str) -> int | None:
    """Bytes that `text` says; None for "none". Raises InputError for anything else."""
    if text.lower() in ("none", "null"):
        return None
    match = _SIZE.fullmatch(text)
    size = float(match[1]) * _UNITS[(match[2] or "").upper()] if match else math.inf
    if size >= _LARGEST:
        raise InputError(
            f"{key}={shown(text)} is refused: expected a size in bytes or with a unit, as in {key}=200MB, below 8 EB."
        )
    return int(size)
