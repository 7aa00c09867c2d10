"""The tidy rows of an exhibit: one number per row, the paper's beside it, never without label, n and commit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from harness.statistics.ratios import Ratios, ratios_of
from harness.store.files import replacing
from harness.store.schema import Label
from odin.errors import InputError

# One row per number.
#   scene, pipeline, arm  empty where the number is of all of them, or of none
#   value      in `unit`; shares are 0…1
#   low, high  of a number of one place: Student's 95 % interval over seeds; of a mean over places (quantity `mean_…`,
#              or scene "mean of …"): the smallest and the largest place; of speedup_jittered: the smallest and the
#              largest re-timing, n of them. NaN where there is none
#   paper      the paper's number for it; NaN where it states none
#   label      kinds of evidence, joined by " / "
#   n          pairs, places or repetitions behind the value
#   commit     12 digits of each commit, joined by ", "
COLUMNS: dict[str, str] = {
    "exhibit": "str",
    "quantity": "str",
    "scene": "str",
    "pipeline": "str",
    "arm": "str",
    "value": "float64",
    "low": "float64",
    "high": "float64",
    "paper": "float64",
    "unit": "str",
    "label": "str",
    "n": "int64",
    "commit": "str",
}
LABELS = frozenset(label.value for label in Label) | {"computed"}  # computed: from metadata, no clock and no training
NOTHING = float("nan")


class Rows:
    """Collects the rows of one exhibit."""

    def __init__(self, exhibit: str) -> None:
        self._exhibit = exhibit
        self._rows: list[dict[str, Any]] = []

    def add(
        self,
        quantity: str,
        value: float | None,
        *,
        label: str,
        commit: str,
        n: int = 1,
        scene: str = "",
        pipeline: str = "",
        arm: str = "",
        low: float | None = None,
        high: float | None = None,
        paper: float | None = None,
        unit: str = "",
    ) -> None:
        """A number; nothing is added where `value` is None, which is a number that could not be had."""
        if value is None:
            return
        named = {"quantity": quantity, "scene": scene, "pipeline": pipeline, "arm": arm, "unit": unit}
        numbers = {"value": value, "low": low, "high": high, "paper": paper}
        known = {key: NOTHING if number is None else float(number) for key, number in numbers.items()}
        self._rows.append({"exhibit": self._exhibit, **named, **known, "label": label, "n": n, "commit": commit})

    def add_ratios(self, quantity: str, ratios: Sequence[float], **more: Any) -> Ratios | None:
        """The geometric mean of ratios of one place over seeds, with Student's interval; nothing for no ratio."""
        if not ratios:
            return None
        found = ratios_of(ratios)
        bounds: dict[str, Any] = (
            {} if found.constant else {"low": found.student.low.value, "high": found.student.high.value}
        )
        self.add(quantity, found.geometric, n=found.n, **bounds, **more)
        return found

    def add_mean(self, quantity: str, values: Sequence[float], **more: Any) -> None:
        """The arithmetic mean over places, as the paper's, with the smallest and the largest; nothing for none."""
        if values:
            bounds: dict[str, Any] = {"low": min(values), "high": max(values)} if len(values) > 1 else {}
            self.add(quantity, sum(values) / len(values), n=len(values), **bounds, **more)

    def frame(self) -> pd.DataFrame:
        """All rows, checked; columns as `COLUMNS`."""
        columns = {name: pd.Series([row[name] for row in self._rows], dtype=kind) for name, kind in COLUMNS.items()}
        return check_rows(pd.DataFrame(columns))


def check_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame, if it holds tidy rows. Raises InputError that says what is wrong with it."""
    if list(frame.columns) != list(COLUMNS):
        raise InputError(f"Tidy rows have the columns {', '.join(COLUMNS)}, not {', '.join(frame.columns)}.")
    if not frame["value"].map(lambda v: abs(v) < float("inf")).all():
        raise InputError("A tidy row has no finite value; leave out a number that could not be had.")
    outside = (frame["low"] > frame["value"] + 1e-12) | (frame["high"] < frame["value"] - 1e-12)
    if outside.any():
        raise InputError(f"A value lies outside its own interval: {frame[outside].iloc[0].to_dict()}.")
    unlabelled = [label for label in frame["label"] if not label or not set(label.split(" / ")) <= LABELS]
    if unlabelled:
        raise InputError(f"A number without an evidence label, or with an unknown one: {unlabelled[0]!r}.")
    if (frame["n"] < 1).any() or (frame["commit"] == "").any() or (frame["quantity"] == "").any():
        raise InputError("A tidy row lacks its n, its commit or its quantity.")
    key = ["exhibit", "quantity", "scene", "pipeline", "arm"]
    if frame.duplicated(key).any():
        raise InputError(f"A number stands twice: {frame[frame.duplicated(key)].iloc[0][key].to_dict()}.")
    return frame


def write_rows(frame: pd.DataFrame, path: Path) -> Path:
    """As CSV with 9 significant digits, whole or not at all. Raises InputError, RunError."""
    with replacing(path) as temporary:
        check_rows(frame).to_csv(temporary, index=False, float_format="%.9g", lineterminator="\n")
    return path


def read_rows(path: Path) -> pd.DataFrame:
    """Rows written before. Raises InputError."""
    try:
        text = {name: "string" for name, kind in COLUMNS.items() if kind == "str"}
        frame = pd.read_csv(path, dtype=text, keep_default_na=False, na_values={n: [""] for n in NUMBERS})
        return check_rows(frame.astype(COLUMNS))
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"The rows {path} cannot be read: {error}.") from error


NUMBERS = ("value", "low", "high", "paper")


def evidence(rows: pd.DataFrame) -> str:
    """The kinds of evidence behind these rows, each once, joined by " / "."""
    return " / ".join(sorted({label for joined in rows["label"] for label in joined.split(" / ")}))


def table_of(frame: pd.DataFrame, *, arms: bool = True) -> pd.DataFrame:
    """Rows for a reader: what, where, value with its bounds, the paper's, label; all text."""
    columns = {
        "quantity": frame["quantity"].str.replace("_", " "),
        "scene": frame["scene"],
        "pipeline": frame["pipeline"],
        "arm": frame["arm"],
        "value": [shown(row) for row in frame.to_dict("records")],
        "paper": [number(p, u) for p, u in zip(frame["paper"], frame["unit"], strict=True)],
        "label": frame["label"],
        "n": frame["n"].astype(str),
    }
    table = pd.DataFrame(columns).astype(str)
    empty = [name for name in ("scene", "pipeline", "arm", "paper") if (table[name] == "").all()]
    return table.drop(columns=empty)


def shown(row: dict[Any, Any]) -> str:
    """A row's value with its unit, and its bounds where there are any."""
    text = number(row["value"], row["unit"])
    low, high = number(row["low"], row["unit"]), number(row["high"], row["unit"])
    return f"{text} [{low}, {high}]" if low and high else text


def number(value: float, unit: str) -> str:
    """A number with its unit; the empty string for none. Shares are shown in percent, small ones to a hundredth."""
    if value != value:
        return ""
    if unit == "share":
        return f"{100 * value:.{2 if 0.0005 <= abs(value) < 0.01 else 1}f} %"
    if unit == "ratio":
        return f"{value:.3f}×" if value < 10 else f"{value:.0f}×"
    digits = f"{value:.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
    return f"{digits} {unit}".strip()
