"""Studies and records made up for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.config.resolve import identity_of
from harness.store.identity import code_version
from harness.store.schema import Label, Result, Seeds
from harness.store.store import CellStore
from harness.study.file import read_study
from harness.study.matrix import expand_study
from harness.study.plan import PlannedPair, StudyPlan
from tests.store import samples

MANIFEST = "5c" * 32


def plan(out: Path, seeds: Sequence[int] = (0, 1), **parts: object) -> StudyPlan:
    """A saved plan of one pair per seed."""
    data = {
        "set": {"link": "none", "padded": False, "steps": 4},
        "axes": {"scene": ["rooms"], "seed": list(seeds)},
        "pairs": [["barrier", "predicted"]],
    }
    found = StudyPlan.of("tiny", expand_study(read_study("tiny", {**data, **parts}), [f"out={out}"]))
    found.save()
    return StudyPlan(found.name, out, found.pairs)


def result(
    pair: PlannedPair, index: int, *, version: str = "", reason: str = "", factor: float = 1.0, **changes: object
) -> Result:
    """A record of the pair's index-th cell: done, or failed for the reason."""
    arm, repeat = pair.cells[index]
    run = {"arm": arm, "repeat": repeat}
    settings = dict(pair.settings)
    cell = samples.cell(
        arm,
        repeat,
        sequence=tuple(a for a, _ in pair.cells),
        config={**settings, **run},
        identity={**identity_of(settings), **run},
        manifest=MANIFEST,
        label=Label.MEASURED,
        seeds=Seeds(run=settings["seed"], jitter=repeat),
    )
    provenance = samples.provenance(code_version=version or code_version())
    if reason:
        return Result.failed(cell, reason, provenance)
    measured = samples.measurement(arm, factor, link=None, padding_scale=None, profile="none", **changes)
    return Result.done(cell, measured, provenance)


def record(plan: StudyPlan, pair: PlannedPair, index: int, **how: object) -> Result:
    """Write such a record, and the manifest of its scene."""
    made = result(pair, index, **how)  # type: ignore[arg-type]
    CellStore(plan.out).write_result(made)
    plan.keep_manifest(pair, MANIFEST, pair.stamp())
    return made


def record_pair(plan: StudyPlan, pair: PlannedPair, *, factor: float = 1.0) -> None:
    """All cells of a pair, done."""
    for index in range(len(pair.cells)):
        record(plan, pair, index, factor=factor)
