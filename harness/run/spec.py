"""What the supervisor hands to rank processes, as one JSON file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config import Cell, Config, resolved
from harness.config.convert import build
from odin.comm.stamps import STAMPS


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One sequence of cells on one group of rank processes.

    cells:   (arm, repeat) in the order they run
    folder:  scratch folder of this run: rendezvous file, per-rank frames, logs; every node of the ranks sees it
    nodes:   hosts that the ranks lie on, equally many on each, in rank order
    meeting: ADDRESS:PORT of the store at which the ranks meet; without a port it is the rendezvous file
    module:  what the ranks run; "" for the cells, as the engine does
    """

    config: Config
    cells: tuple[tuple[str, int], ...]
    folder: Path
    nodes: int = 1
    meeting: str = ""
    module: str = ""

    @property
    def ranks_run(self) -> str:
        """The module whose `main` each rank calls."""
        return self.module or ("harness.run.virtual" if self.config.engine.virtual else "harness.run.worker")

    @property
    def rendezvous(self) -> Path:
        """The file through which ranks find each other; a file cannot clash as a port can."""
        return self.folder / "rendezvous"

    @property
    def stamps(self) -> str:
        """How the names of this run's boards in shared memory begin."""
        return f"{STAMPS}{self.folder.name}-"

    def cell(self, index: int) -> Cell:
        """The index-th cell."""
        arm, repeat = self.cells[index]
        return Cell(arm=arm, repeat=repeat, config=self.config)

    def log(self, rank: int) -> Path:
        """Where a rank's own output goes."""
        return self.folder / f"rank-{rank}.log"

    def frame(self, index: int, kind: str, rank: int) -> Path:
        """A rank's timeline or steps frame of a cell, before rank 0 joins them."""
        return self.folder / f"cell-{index}-{kind}-rank-{rank}.parquet"

    @property
    def path(self) -> Path:
        """What rank processes read."""
        return self.folder / "spec.json"

    def save(self) -> None:
        """Write it to `path`."""
        data: dict[str, Any] = {"config": {**resolved(self.config), "out": self.config.out}, "cells": self.cells}
        data |= {"nodes": self.nodes, "meeting": self.meeting, "module": self.module}
        self.path.write_text(json.dumps(data), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> RunSpec:
        """Read what `save` wrote."""
        data = json.loads(path.read_text(encoding="utf-8"))
        cells = tuple((arm, repeat) for arm, repeat in data["cells"])
        config = build(Config, data["config"])
        more = {key: data[key] for key in ("nodes", "meeting", "module")}
        return cls(config=config, cells=cells, folder=path.parent, **more)
