"""The timeline of one cell: every phase, wait and collective of every rank, as a frame, a file and a trace.

Both frames count seconds from the cell's start on one clock that is the same on all ranks. Evaluation is not
in them. Rows of kind "phase" and "wait" of a rank follow one another; a "collective" runs beside them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from harness.store.files import replacing, write_text
from odin.errors import InputError

# One row per phase, wait and collective.
#   step         the step whose work the row belongs to
#   start, end   s; of a collective: its transfer, from when the last rank has joined and the link is free
#   last_join    s, when the last rank joined the collective that the row waits for (or is); NaN in a phase
#   bytes        payload of a collective as the rank sees it, else 0
#   work_*       what a phase worked on, for the price profile; 0 where it does not apply
TIMELINE_COLUMNS: dict[str, str] = {
    "rank": "int64",
    "step": "int64",
    "kind": "str",
    "name": "str",
    "category": "str",
    "start": "float64",
    "end": "float64",
    "last_join": "float64",
    "bytes": "int64",
    "work_rows": "int64",
    "work_entries": "int64",
    "work_fragments": "int64",
    "work_pixels": "int64",
}

# One row per rank and step.
#   end          s; that of the last step includes the final publication
#   structural   a structural event follows the step, so the window after it is a barrier
#   loss         mean over the rank's views
STEP_COLUMNS: dict[str, str] = {
    "rank": "int64",
    "step": "int64",
    "start": "float64",
    "end": "float64",
    "structural": "bool",
    "loss": "float64",
}

# Which categories a kind may have. useful = render, loss, backward, update; odin = scopes, partition, zero
# step, staging, correction.
CATEGORIES: dict[str, frozenset[str]] = {
    "phase": frozenset({"useful", "odin", "structural"}),
    "wait": frozenset({"wait"}),
    "collective": frozenset({"link"}),
}

_OPTIONAL = {"bytes": 0, "work_rows": 0, "work_entries": 0, "work_fragments": 0, "work_pixels": 0}
_TRACKS = {"phase": "compute", "wait": "wait", "collective": "link"}
_MAY_BE_NAN = "last_join"


def timeline_frame(columns: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """A checked timeline; `last_join`, `bytes` and `work_*` may be left out. Raises InputError."""
    rows = len(columns["rank"])
    defaults = {"last_join": [np.nan] * rows} | {name: [value] * rows for name, value in _OPTIONAL.items()}
    return check_timeline(_frame(defaults | dict(columns), TIMELINE_COLUMNS, "timeline"))


def steps_frame(columns: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """A checked steps frame from columns. Raises InputError."""
    return check_steps(_frame(columns, STEP_COLUMNS, "steps frame"))


def check_timeline(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame itself. Raises InputError that names the first row that breaks the contract above."""
    _check_columns(frame, TIMELINE_COLUMNS, "timeline")
    _refuse(frame, ~frame["kind"].isin(list(CATEGORIES)), f"kind is one of {', '.join(CATEGORIES)}")
    for kind, allowed in CATEGORIES.items():
        wrong = (frame["kind"] == kind) & ~frame["category"].isin(sorted(allowed))
        _refuse(frame, wrong, f"a {kind} has category {' or '.join(sorted(allowed))}")
    _check_times(frame)
    is_phase, is_link = frame["kind"] == "phase", frame["kind"] == "collective"
    joined = np.isfinite(frame["last_join"])
    _refuse(frame, joined == is_phase, "last_join is a time in waits and collectives, else NaN")
    late = is_link & (frame["last_join"] > frame["end"])
    _refuse(frame, late, "a collective ends after its last rank joined")
    _refuse(frame, (frame["bytes"] != 0) & ~is_link, "only a collective has bytes")
    counts = ["rank", "step", *_OPTIONAL]
    _refuse(frame, (frame[counts] < 0).any(axis=1), f"{', '.join(counts)} are not negative")
    return frame


def check_steps(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame itself: every rank has every step of one run of consecutive steps once. Raises InputError."""
    _check_columns(frame, STEP_COLUMNS, "steps frame")
    if frame.empty:
        raise InputError("The steps frame is empty: a cell has at least one step.")
    _check_times(frame)
    _refuse(frame, ~np.isfinite(frame["loss"]), "loss is a finite number")
    _refuse(frame, frame.duplicated(["rank", "step"]), "a rank has a step once")
    ranks, steps = frame["rank"].nunique(), frame["step"].nunique()
    if len(frame) != ranks * steps or frame["step"].max() - frame["step"].min() + 1 != steps:
        raise InputError(
            f"The steps frame has {len(frame)} rows for {ranks} ranks and {steps} steps from "
            f"{frame['step'].min()} to {frame['step'].max()}; every rank has every step once."
        )
    disagree = frame.groupby("step")["structural"].nunique() > 1
    if disagree.any():
        raise InputError(f"Ranks disagree on whether step {disagree.idxmax()} is structural.")
    return frame


def step_seconds(steps: pd.DataFrame) -> list[float]:
    """Raw step times [S], s: from the last rank's end of a step to that of the next; they sum to the wall."""
    ends = steps.groupby("step")["end"].max().sort_index().to_numpy()
    return [float(value) for value in np.diff(ends, prepend=steps["start"].min())]


def step_losses(steps: pd.DataFrame) -> list[float]:
    """Loss of every step [S], mean over ranks."""
    return [float(value) for value in steps.groupby("step")["loss"].mean().sort_index()]


def write_timeline(frame: pd.DataFrame, path: Path) -> None:
    """Parquet, whole or not at all. Raises InputError on a broken frame, RunError when the disk refuses."""
    _write(check_timeline(frame), path)


def read_timeline(path: Path) -> pd.DataFrame:
    """A checked timeline. Raises InputError that names the file."""
    return _read(path, check_timeline)


def write_steps(frame: pd.DataFrame, path: Path) -> None:
    """As `write_timeline`, for a steps frame."""
    _write(check_steps(frame), path)


def read_steps(path: Path) -> pd.DataFrame:
    """As `read_timeline`, for a steps frame."""
    return _read(path, check_steps)


def chrome_trace(frame: pd.DataFrame) -> dict[str, Any]:
    """The timeline in Chrome's trace format (opens in Perfetto): a process per rank, times in microseconds.

    Tracks are "compute", "wait" and "link". Slices of one track must not overlap in a viewer, so rows that do
    (two collectives in flight) go to "link 2", "link 3" and so on.
    """
    check_timeline(frame)
    events: list[dict[str, Any]] = []
    for rank, rows in frame.groupby("rank", sort=True):
        events += [_meta(int(rank), 0, "process_name", {"name": f"rank {rank}"})]
        events += [_meta(int(rank), 0, "process_sort_index", {"sort_index": int(rank)})]
        thread = 0
        for kind, track in _TRACKS.items():
            for lane, members in enumerate(_lanes(rows[rows["kind"] == kind])):
                name = track if lane == 0 else f"{track} {lane + 1}"
                events += [_meta(int(rank), thread, "thread_name", {"name": name})]
                events += [_meta(int(rank), thread, "thread_sort_index", {"sort_index": thread})]
                events += [_slice(row, thread) for row in members]
                thread += 1
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def write_trace(frame: pd.DataFrame, path: Path) -> None:
    """`chrome_trace` as a .json file, whole or not at all."""
    write_text(path, json.dumps(chrome_trace(frame), allow_nan=False, separators=(",", ":")))


def _frame(columns: Mapping[str, Sequence[Any]], wanted: Mapping[str, str], what: str) -> pd.DataFrame:
    missing = [name for name in wanted if name not in columns]
    unknown = [name for name in columns if name not in wanted]
    if missing or unknown:
        raise InputError(f"A {what} lacks {missing} and has no {unknown}; its columns are {list(wanted)}.")
    try:
        return pd.DataFrame({n: pd.Series(list(columns[n]), dtype=kind) for n, kind in wanted.items()})
    except (TypeError, ValueError) as error:
        raise InputError(f"A column of the {what} has the wrong type: {error}") from error


def _check_columns(frame: pd.DataFrame, wanted: Mapping[str, str], what: str) -> None:
    if list(frame.columns) != list(wanted):
        raise InputError(f"A {what} has columns {list(wanted)}, not {list(frame.columns)}.")
    for name, kind in wanted.items():
        is_text = kind == "str" and pd.api.types.is_string_dtype(frame[name].dtype)
        if not is_text and str(frame[name].dtype) != kind:
            raise InputError(f"Column {name!r} of a {what} is {kind}, not {frame[name].dtype}.")
        absent = frame[name].isna().to_numpy()
        if name != _MAY_BE_NAN and absent.any():
            raise InputError(f"Column {name!r} of a {what} has no value in row {absent.argmax()}.")


def _check_times(frame: pd.DataFrame) -> None:
    bad = ~np.isfinite(frame["start"]) | ~np.isfinite(frame["end"]) | (frame["end"] < frame["start"])
    _refuse(frame, bad, "start and end are finite and start ≤ end")


def _refuse(frame: pd.DataFrame, wrong: pd.Series, rule: str) -> None:
    if wrong.any():
        row = int(np.argmax(wrong.to_numpy()))
        raise InputError(f"Row {row} breaks the rule that {rule}: {frame.iloc[row].to_dict()}.")


def _write(frame: pd.DataFrame, path: Path) -> None:
    with replacing(path) as temporary:
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), temporary)


def _read(path: Path, check: Any) -> pd.DataFrame:
    try:
        return check(pq.read_table(path).to_pandas())
    except (OSError, pa.ArrowException, InputError) as error:
        raise InputError(f"{path} is not a usable timeline: {error}") from error


def _meta(rank: int, thread: int, name: str, values: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "pid": rank, "tid": thread, "name": name, "args": values}


def _slice(row: dict[str, Any], thread: int) -> dict[str, Any]:
    shown = ("step", "bytes", "work_rows", "work_entries", "work_fragments", "work_pixels")
    args = {name: row[name] for name in shown if name == "step" or row[name]}
    if np.isfinite(row["last_join"]):
        args["last_join_us"] = round(row["last_join"] * 1e6, 3)
    return {
        "ph": "X",
        "pid": row["rank"],
        "tid": thread,
        "name": row["name"],
        "cat": row["category"],
        "ts": round(row["start"] * 1e6, 3),
        "dur": round((row["end"] - row["start"]) * 1e6, 3),
        "args": args,
    }


def _lanes(rows: pd.DataFrame) -> list[list[dict[str, Any]]]:
    """Rows in order of start, each in the first lane that is free; at least one lane, even if empty."""
    lanes: list[list[dict[str, Any]]] = [[]]
    for row in rows.sort_values(["start", "end"], kind="stable").to_dict("records"):
        free = next((lane for lane in lanes if not lane or lane[-1]["end"] <= row["start"] + 1e-9), None)
        if free is None:
            lanes.append([row])
        else:
            free.append(row)
    return lanes
