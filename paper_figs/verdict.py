"""Targets beside what was reached: met, missed and why, or not judged because too few cells have a number."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from paper_figs.lookup import Lookup, Row
from paper_figs.targets import TARGETS, Beside, Stated, Target
from paper_figs.tidy import number, shown

MET, MISSED, ABSENT = "met", "NOT met", "–"


def verdicts(frame: pd.DataFrame) -> list[dict[str, str]]:
    """Every target and arm, as text; absent ones say so. frame: the headline's rows.

    target, aim, reached, paper, verdict; beside: other numbers that belong to it; missed: why it is not met; why: why
    ours and the paper's number differ
    """
    found = Lookup(frame)
    return [_line(found, target, arm) for target in TARGETS for arm in target.arms]


def _line(found: Lookup, target: Target, arm: str) -> dict[str, str]:
    row = found.row(target.quantity, arm, None)
    verdict = _verdict(found, target, arm, row)
    excused = verdict == MET or (target.aim is None and not verdict.endswith(("not judged", "below the paper's")))
    order = ", in barrier's own order" if arm.endswith("-random") else ""
    return {
        "target": f"{target.text} ({arm}{order})",
        "aim": _aim(target),
        "reached": target.absent if row is None else _reached(found, target, arm, row),
        "beside": "; ".join(_beside(found, target, arm, row)),
        "paper": target.paper.text() if isinstance(target.paper, Stated) else target.paper,
        "verdict": verdict,
        "missed": "" if excused else target.missed(found, arm),
        "why": f"{target.why[:1].upper()}{target.why[1:]}.",
    }


def _aim(target: Target) -> str:
    return "none" if target.aim is None else f"{'≤' if target.most else '≥'} {number(target.aim, target.unit)}"


def _verdict(found: Lookup, target: Target, arm: str, row: Row | None) -> str:
    if row is None:
        return ABSENT
    missed = target.aim is not None and (row["value"] > target.aim if target.most else row["value"] < target.aim)
    there, asked = _there(found, target, arm, row), _asked(found, target)
    if there < asked and not (target.worst and missed):
        return f"{there} of {asked} {target.of}: not judged"
    if target.aim is not None:
        return MISSED if missed else MET
    paper = target.paper.value if isinstance(target.paper, Stated) else None
    return "no aim" if paper is None else f"no aim: {'below' if row['value'] < paper else 'not below'} the paper's"


def _there(found: Lookup, target: Target, arm: str, row: Row) -> int:
    """Places behind a value."""
    return round(found.value(target.count, arm, None) or 0) if target.count else int(row["n"])


def _asked(found: Lookup, target: Target) -> int:
    return max(target.asks, round(found.value("matrix_cells") or 0)) if target.matrix else target.asks


def _reached(found: Lookup, target: Target, arm: str, row: Row) -> str:
    """The value with its range, the places behind it, and its label."""
    asked = _asked(found, target)
    places = f"{_there(found, target, arm, row)} of {asked} {target.of}" if asked > 1 else ""
    whole = f"of {row['n']} cells" if target.count and target.of.startswith("cells") else ""
    text = " ".join(filter(None, (shown(dict(row)), whole)))
    return f"{text}{f', {places}' if places else ''} ({row['label']})"


def _beside(found: Lookup, target: Target, arm: str, row: Row | None) -> Iterator[str]:
    for one in target.beside:
        other = found.row(one.quantity, arm if one.arm is None else one.arm, None)
        if other is not None and not _repeats(one, other, row):
            yield one.text.format(value=number(other["value"], other["unit"]), n=other["n"])


def _repeats(one: Beside, other: Row, row: Row | None) -> bool:
    """A number against waiting in the same order says nothing more where that is barrier's own."""
    return one.quantity.endswith("_same_order") and row is not None and abs(other["value"] - row["value"]) < 1e-12
