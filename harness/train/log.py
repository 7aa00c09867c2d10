"""The log of a training: a line per step, whose numbers do not start anew when training is resumed."""

from __future__ import annotations

import csv
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.store.files import write_text

COLUMNS = ("step", "seconds", "loss", "learning_rate", "primitives", "structural")
Value = int | float | str


class TrainingLog:
    """Appends a line after every step.

    step:          from 0
    seconds:       since this invocation began to train
    loss:          mean over rank 0's views of the step; on a device the last one known then, nan before the first
    learning_rate: of positions, in world units per normalised step
    primitives:    after the step; of a sharded pipeline, those of rank 0
    structural:    1 where a structural event followed the step
    """

    def __init__(self, path: Path, first: int) -> None:
        """Lines of steps from `first` on, which were trained after the last checkpoint, are dropped: they will be
        trained again."""
        kept = [line for line in read_log(path) if int(line[0]) < first] if path.exists() else []
        write_text(path, "".join(f"{','.join(line)}\n" for line in (COLUMNS, *kept)))
        self._file = path.open("a", encoding="utf-8", newline="", buffering=1)
        self._writer = csv.writer(self._file, lineterminator="\n")

    def __enter__(self) -> Self:
        return self

    def write(self, *values: Value) -> None:
        """The next line."""
        self._writer.writerow(values)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def read_log(path: Path) -> list[list[str]]:
    """The whole lines of a log; one that was cut off when its writer was killed is none."""
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[1:-1]
    rows = [line.split(",") for line in lines]
    return [row for row in rows if len(row) == len(COLUMNS) and row[0].isdigit()]
