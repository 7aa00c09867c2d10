"""Accounts of overlap windows as a frame and a file, one row per window of a cell.

Legend: W ranks, S steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from harness.store.files import replacing
from odin.errors import InputError
from odin.publication import Window
from odin.publication.delays import LOWEST, Delays

# step    the window lies between this step and the next
# *_rows  see odin.publication.window.Window; raw, waw, war: rows in conflict, -1 where scopes were not compared
# *_s     seconds that a rank waited for what `step` had sent, mean over ranks, see `waited_seconds`; NaN: not recorded
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
    "transfer_s": "float64",
    "skew_s": "float64",
}
_SECONDS = ("transfer_s", "skew_s")  # records of earlier versions have none


def windows_frame(windows: Sequence[Window], waited: pd.DataFrame | None = None) -> pd.DataFrame:
    """The frame of a cell's windows: rank 0's, and the same on all ranks but for `evidence=local`.

    waited: of `waited_seconds`
    """
    rows = []
    for w in windows:
        hazards = (w.hazards.raw, w.hazards.waw, w.hazards.war) if w.hazards else (-1, -1, -1)
        counts = (w.waited_rows, w.delayed_rows, w.write_rows, w.rows)
        rows.append((w.step, w.state.value, w.reason, *counts, *hazards))
    frame = pd.DataFrame(rows, columns=[name for name in WINDOW_COLUMNS if name not in _SECONDS])
    for name in _SECONDS:
        frame[name] = np.nan if waited is None else waited[name].reindex(frame["step"]).to_numpy()
    return frame.astype(WINDOW_COLUMNS)


def waited_seconds(timeline: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """Seconds that a rank waited for what each step had sent: transfer_s and skew_s (D§7), mean over ranks, by step.

    timeline, steps: of all ranks of one cell (`harness.measure.timeline`)

    An open window is waited for in its successor step, a closed one at the end of its own. A timeline does not say what
    a wait is for, but when the last rank joined: after every rank had begun the step that sent it, and before the last
    one had begun the next. Sums over all steps are those of the breakdown.
    """
    begun = steps.groupby("step")["start"].max().sort_index()  # [S]
    waits = timeline[timeline["kind"] == "wait"]
    start, end, joined = (waits[name].to_numpy() for name in ("start", "end", "last_join"))
    sender = np.searchsorted(begun.to_numpy(), joined, side="left") - 1
    sent_by = np.minimum(begun.index.to_numpy()[np.maximum(sender, 0)], waits["step"].to_numpy())
    skew = np.maximum(np.minimum(end, joined) - start, 0.0)
    seconds = pd.DataFrame({"transfer_s": end - start - skew, "skew_s": skew}).groupby(sent_by).sum()
    return seconds.reindex(begun.index, fill_value=0.0) / steps["rank"].nunique()


def write_windows(frame: pd.DataFrame, path: Path) -> None:
    """Parquet, whole or not at all."""
    with replacing(path) as temporary:
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), temporary)


def read_windows(path: Path) -> pd.DataFrame:
    """The windows of a cell; one that was recorded without seconds has NaN there. Raises InputError naming the file."""
    return _read(path, WINDOW_COLUMNS, optional=_SECONDS)


def read_delays(path: Path) -> pd.DataFrame:
    """The histograms of `delays_frame`. Raises InputError naming the file."""
    return _read(path, DELAY_COLUMNS)


def _read(path: Path, columns: Mapping[str, str], optional: Sequence[str] = ()) -> pd.DataFrame:
    try:
        frame = pq.read_table(path).to_pandas()
        given = {name: frame[name] if name in frame or name not in optional else np.nan for name in columns}
        return pd.DataFrame(given, index=frame.index).astype(dict(columns))
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        raise InputError(f"{path} does not hold the columns {', '.join(columns)}: {error}") from error


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
