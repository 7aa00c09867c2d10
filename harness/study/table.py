"""The table of a study: one row per cell, from the records, with checked columns, as Parquet and CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from harness.store.files import replacing
from harness.store.index import Known
from harness.store.schema import Measurement, Result
from harness.store.states import State
from harness.store.store import CellStore
from harness.study.plan import StudyPlan
from harness.study.states import CellOf, PairState
from odin.errors import InputError

# One row per cell of the study, in its order.
#   place        axis=label of the pair, joined by blanks
#   baseline     the arm that the pair is compared with
#   label        evidence label of every number in the row; empty without a record
#   state        done, failed, skipped, running, pending; stale: done by other code than the present
#   reason       of a failed or skipped cell
#   step_s       mean step, s; useful_s … other_s: its parts (`harness.measure.breakdown`)
#   psnr, ssim, lpips: of the test views after training; NaN where not computed, which the CSV writes as n/a
#   not_computed: which of a done cell's three there is not, and why; empty where all are there
#   digest       of the final state: equal for equal bits
COLUMNS: dict[str, str] = {
    "study": "str",
    "pair": "str",
    "place": "str",
    "baseline": "str",
    "arm": "str",
    "repeat": "int64",
    "seed": "int64",
    "ranks": "int64",
    "global_batch": "int64",
    "steps": "int64",
    "pipeline": "str",
    "scene": "str",
    "label": "str",
    "state": "str",
    "stale": "bool",
    "reason": "str",
    "cell": "str",
    "commit": "str",
    "step_s": "float64",
    "useful_s": "float64",
    "transfer_s": "float64",
    "skew_s": "float64",
    "odin_s": "float64",
    "structural_s": "float64",
    "other_s": "float64",
    "psnr": "float64",
    "ssim": "float64",
    "lpips": "float64",
    "not_computed": "str",
    "primitives": "int64",
    "digest": "str",
}
STATES = frozenset({"done", "failed", "skipped", "running", "pending"})
_PARTS = ("useful", "transfer", "skew", "odin", "structural", "other")
_UNKNOWN = float("nan")


def study_table(plan: StudyPlan, states: Sequence[PairState]) -> pd.DataFrame:
    """The table of a plan's cells; columns as `COLUMNS`. Raises InputError on a record that does not validate."""
    store = CellStore(plan.out)
    rows = [_row(plan.name, cell, store) for state in states for cell in state.cells]
    columns = {name: pd.Series([row[name] for row in rows], dtype=kind) for name, kind in COLUMNS.items()}
    return check_table(pd.DataFrame(columns))


def check_table(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame, if it is a study's table. Raises InputError."""
    if list(frame.columns) != list(COLUMNS):
        raise InputError(f"A study's table has the columns {', '.join(COLUMNS)}, not {', '.join(frame.columns)}.")
    wrong = [name for name, kind in COLUMNS.items() if frame[name].dtype != pd.Series([], dtype=kind).dtype]
    if wrong:
        raise InputError(f"A study's table has the wrong type in {', '.join(wrong)}.")
    if not set(frame["state"]) <= STATES:
        raise InputError(f"A study's table has an unknown state: {', '.join(sorted(set(frame['state']) - STATES))}.")
    done = frame[frame["state"] == "done"]
    if not (done["step_s"] > 0).all() or (done["label"] == "").any() or (done["cell"] == "").any():
        raise InputError("A done cell of a study's table has no time, no label or no record.")
    if frame.loc[frame["state"] != "done", "step_s"].notna().any():
        raise InputError("A cell of a study's table has a time and is not done.")
    if frame.duplicated(["pair", "arm", "repeat"]).any():
        raise InputError("A study's table holds a cell twice.")
    return frame


def write_table(plan: StudyPlan, frame: pd.DataFrame) -> list[Path]:
    """table.parquet and table.csv of the study. Raises RunError when the disk refuses."""
    parquet, csv = plan.folder / "table.parquet", plan.folder / "table.csv"
    with replacing(parquet) as path:
        frame.to_parquet(path, index=False)
    with replacing(csv) as path:
        frame.to_csv(path, index=False, lineterminator="\n", na_rep="n/a")
    return [parquet, csv]


def read_table(path: Path) -> pd.DataFrame:
    """A table written before. Raises InputError."""
    try:
        return check_table(pd.read_parquet(path))
    except (OSError, ValueError) as error:
        raise InputError(f"The table {path} cannot be read: {error}.") from error


def _readable(store: CellStore, known: Known) -> Result | None:
    """The record of a cell; None where there is none, or where it is the reason that the cell counts as failed."""
    if not known.record:
        return None
    try:
        return store.read_result(known.record)
    except InputError:
        if known.state is State.FAILED:
            return None
        raise


def _row(study: str, cell: CellOf, store: CellStore) -> dict[str, Any]:
    pair, known, settings = cell.pair, cell.known, cell.pair.settings
    engine = settings["engine"]
    result = _readable(store, known)
    return {
        "study": study,
        "pair": pair.key,
        "place": " ".join(f"{axis}={label}" for axis, label in pair.where.items()),
        "baseline": pair.baseline,
        "arm": cell.arm,
        "repeat": cell.repeat,
        "seed": settings["seed"],
        "ranks": engine["ranks"],
        "global_batch": engine["ranks"] * engine["views_per_unit"],
        "steps": settings["scale"]["steps"],
        "pipeline": settings["pipeline"]["name"],
        "scene": settings["scene"]["path"],
        "state": known.state.value,
        "stale": known.stale,
        "reason": known.reason or "",
        "cell": known.record or "",
        "commit": known.commit,
        "label": result.cell.label.value if result else "",
        **_numbers(result),
    }


def _numbers(result: Result | None) -> Mapping[str, Any]:
    m: Measurement | None = result.measurement if result else None
    if m is None:
        names = ["step_s", *(f"{part}_s" for part in _PARTS), "psnr", "ssim", "lpips"]
        return dict.fromkeys(names, _UNKNOWN) | {"not_computed": "", "primitives": 0, "digest": ""}
    final = m.quality_final
    readings = {"psnr": final.psnr, "ssim": final.ssim, "lpips": m.lpips.mean}
    return {
        "step_s": m.breakdown.step,
        **{f"{part}_s": getattr(m.breakdown, part) for part in _PARTS},
        **{name: _UNKNOWN if reading.value is None else reading.value for name, reading in readings.items()},
        "not_computed": "; ".join(f"{name} {r.reason}" for name, r in readings.items() if r.value is None),
        "primitives": m.primitives.final,
        "digest": m.final_digest,
    }
