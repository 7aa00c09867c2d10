"""One line of the doctor's table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class State(Enum):
    """How a finding reads; only MISSING keeps a run from starting."""

    OK = "ok"
    WARN = "warn"  # runs, with less: slower, without a metric, on procedural scenes only
    MISSING = "missing"  # nothing runs before this is repaired


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was looked at, how it is, and the command that repairs it ("": nothing to repair)."""

    name: str
    state: State
    found: str
    fix: str = ""


def ok(name: str, found: str) -> Finding:
    """A finding without a complaint."""
    return Finding(name=name, state=State.OK, found=found)


def warn(name: str, found: str, fix: str = "") -> Finding:
    """A finding that runs survive."""
    return Finding(name=name, state=State.WARN, found=found, fix=fix)


def missing(name: str, found: str, fix: str) -> Finding:
    """A finding that keeps runs from starting."""
    return Finding(name=name, state=State.MISSING, found=found, fix=fix)
