"""The command line in process, and what a refusal has to look like.

The scene is `tests/scenes/toy_scene.py`: 12 PINHOLE views of 48×36 on an arc, 300 coloured points with tracks, PNGs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from harness.cli import main
from harness.plan.document import NamedPlan, read_plan
from harness.store.schema import Result, Status
from harness.store.store import CellStore

# One rank and one arm, without a figure: what is tried is the input, not the ranks.
FAST = ["test_every=0", "ranks=1", "arms=[barrier-planned]", "mirrored=false", "link=none", "padded=false", "steps=9"]


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A command that has ended: its code, both streams, and the records below its folder."""

    code: int
    out: str
    err: str
    records: list[Result]

    @property
    def last(self) -> str:
        """The last line of stderr, where a failure is told."""
        return self.err.splitlines()[-1] if self.err else ""


class Bench:
    """Runs commands whose records go to one folder."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys

    def __call__(self, *words: str) -> Ended:
        """The command with out=FOLDER."""
        self._capsys.readouterr()
        code = main([*words, f"out={self.folder}"])
        out, err = self._capsys.readouterr()
        records = list(CellStore(self.folder, create=False).results()) if (self.folder / "cells").is_dir() else []
        return Ended(code=code, out=out, err=err, records=records)

    def reproduce(self, scene: Path | str, *words: str) -> Ended:
        """The headline on a scene, short; later words count."""
        return self("reproduce", "headline", f"scene={scene}", *FAST, *words)

    def plan(self, scene: Path, *words: str) -> tuple[Ended, NamedPlan]:
        """The plan of a scene over two epochs and more."""
        ended = self("plan", f"scene={scene}", "test_every=0", "ranks=1", "densify=false", *words)
        assert ended.code == 0, ended.err
        return ended, read_plan(Path(ended.out.split("Plan: ")[1].split(",")[0]))


def assert_refused(ended: Ended, *parts: str) -> None:
    """Non-zero exit, one paragraph that says all parts, no traceback, and a record that failed for that reason."""
    assert ended.code != 0
    for part in parts:
        assert part in ended.last, f"{part!r} is not in {ended.last!r}"
    assert "Traceback" not in ended.out + ended.err
    assert [(r.status, r.measurement) for r in ended.records] == [(Status.FAILED, None)]
    assert " ".join(str(ended.records[0].reason).split()) == ended.last


def assert_trained(ended: Ended) -> Result:
    """Zero exit and one complete record, which is returned."""
    assert ended.code == 0, ended.err
    (record,) = ended.records
    assert record.status is Status.DONE and record.measurement is not None
    assert np.isfinite(record.measurement.losses).all()
    return record


def assert_once_an_epoch(units: np.ndarray, views: int) -> None:
    """Every view once in each epoch, for a batch that divides the number of views."""
    flat = units.reshape(-1)
    epochs: Sequence[np.ndarray] = [flat[k : k + views] for k in range(0, len(flat) - views + 1, views)]
    assert len(epochs) >= 2
    for epoch in epochs:
        assert sorted(epoch.tolist()) == list(range(views))
