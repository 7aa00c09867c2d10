"""Accounts of overlap windows as a frame and a file, one row per window of a cell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from harness.store.files import replacing
from odin.publication import Window
from odin.publication.delays import LOWEST, Delays

# step    the window lies between this step and the next
# *_rows  see odin.publication.window.Window; raw, waw, war: rows in conflict, -1 where scopes were not compared
WINDOW_COLUMNS: dict[str, str] = {
    "step": "int64",
    "state": "str",
    "reason": "str",
    "waited_rows": "int64",
    "delayed_rows": "int64",
    "write_rows": "int64",
    "rows": "int64",
    "raw": "int64",
    "waw": "int64",
    "war": "int64",
}


def windows_frame(windows: Sequence[Window]) -> pd.DataFrame:
    """The frame of a cell's windows: rank 0's, and the same on all ranks but for `evidence=local`."""
    rows = []
    for w in windows:
        hazards = (w.hazards.raw, w.hazards.waw, w.hazards.war) if w.hazards else (-1, -1, -1)
        counts = (w.waited_rows, w.delayed_rows, w.write_rows, w.rows)
        rows.append((w.step, w.state.value, w.reason, *counts, *hazards))
    return pd.DataFrame(rows, columns=list(WINDOW_COLUMNS)).astype(WINDOW_COLUMNS)


def write_windows(frame: pd.DataFrame, path: Path) -> None:
    """Parquet, whole or not at all."""
    with replacing(path) as temporary:
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), temporary)


# quantity  local (norm a rank saw; a row counts once per rank), reduced (norm of the sum), update (in learning rates)
# low       lower edge of the octave, in units of the active mean or of the learning rate; -inf: no gradient at all
DELAY_COLUMNS: dict[str, str] = {
    "step": "int64", "quantity": "str", "low": "float64", "rows": "int64", "mean": "float64"
}  # fmt: skip


def delays_frame(windows: Sequence[Delays]) -> pd.DataFrame:
    """Histograms of delayed rows over all ranks, one row per window, quantity and octave that holds any."""
    rows = []
    for w in windows:
        for name, counts, without in zip(
            ("local", "reduced", "update"), (w.local, w.reduced, w.update), w.without, strict=True
        ):
            octaves = [(2.0 ** (LOWEST + k), int(n)) for k, n in enumerate(counts) if n]
            for low, n in ([(float("-inf"), without)] if without else []) + octaves:
                rows.append((w.step, name, low, n, w.mean))
    return pd.DataFrame(rows, columns=list(DELAY_COLUMNS)).astype(DELAY_COLUMNS)
