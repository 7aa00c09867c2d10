"""What the supervisor hands to rank processes, as one JSON file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from harness.config import Cell, Config, resolved
from harness.config.convert import build


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One sequence of cells on one group of rank processes.

    cells:   (arm, repeat) in the order they run
    folder:  scratch folder of this run: rendezvous file, per-rank frames, logs
    """

    config: Config
    cells: tuple[tuple[str, int], ...]
    folder: Path

    @property
    def rendezvous(self) -> Path:
        """The file through which ranks find each other; a file cannot clash as a port can."""
        return self.folder / "rendezvous"

    def cell(self, index: int) -> Cell:
        """The index-th cell."""
        arm, repeat = self.cells[index]
        return Cell(arm=arm, repeat=repeat, config=self.config)

    def log(self, rank: int) -> Path:
        """Where a rank's own output goes."""
        return self.folder / f"rank-{rank}.log"

    def failure(self, rank: int) -> Path:
        """Where a rank that fails says why."""
        return self.folder / f"rank-{rank}.failed"

    def frame(self, index: int, kind: str, rank: int) -> Path:
        """A rank's timeline or steps frame of a cell, before rank 0 joins them."""
        return self.folder / f"cell-{index}-{kind}-rank-{rank}.parquet"

    def save(self) -> Path:
        """Write spec.json and return its path."""
        path = self.folder / "spec.json"
        data = {"config": {**resolved(self.config), "out": self.config.out}, "cells": self.cells}
        path.write_text(json.dumps(data), encoding="utf-8")
        return path

    @classmethod
    def load(cls, path: Path) -> RunSpec:
        """Read what `save` wrote."""
        data = json.loads(path.read_text(encoding="utf-8"))
        cells = tuple((arm, repeat) for arm, repeat in data["cells"])
        return cls(config=build(Config, data["config"]), cells=cells, folder=path.parent)
