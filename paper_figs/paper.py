"""The paper's numbers, each with its section or figure: results/paper/stated.csv."""

from __future__ import annotations

from functools import cache

import pandas as pd

from harness.store.identity import ROOT
from odin.errors import InputError

STATED = ROOT / "results" / "paper" / "stated.csv"


@cache
def stated_table() -> pd.DataFrame:
    """All numbers: exhibit, quantity, scene, pipeline, setting, value, high, unit, where, note. Raises InputError."""
    try:
        return pd.read_csv(STATED, dtype={"scene": "str", "pipeline": "str", "setting": "str"}, keep_default_na=False,
                           na_values={"value": [""], "high": [""]})  # fmt: skip
    except OSError as error:
        raise InputError(f"The paper's numbers {STATED} cannot be read: {error.strerror}. Run from a clone.") from error


def stated(exhibit: str, quantity: str, *, high: bool = False, **where: str) -> float | None:
    """The number that the paper states, or None.

    where: scene=, pipeline=, setting=, to choose among several; high: the upper end of a range
    Raises InputError where several numbers fit.
    """
    table = stated_table()
    rows = table[(table["exhibit"] == exhibit) & (table["quantity"] == quantity)]
    for column, wanted in where.items():
        rows = rows[rows[column] == wanted]
    if len(rows) > 1:
        raise InputError(f"The paper states {len(rows)} numbers for {quantity} in {exhibit}: say which.")
    if rows.empty:
        return None
    value = float(rows.iloc[0]["high" if high else "value"])
    return None if value != value else value
