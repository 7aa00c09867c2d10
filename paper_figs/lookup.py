"""Tidy rows of one exhibit, looked up by quantity, arm and pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from paper_figs.tidy import number

Row = Mapping[str, Any]


class Lookup:
    """The rows of an exhibit whose places are pipelines alone."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._rows: dict[tuple[str, str, str], Row] = {
            (row["quantity"], row["arm"], row["pipeline"]): row for row in frame.to_dict("records")
        }

    def row(self, quantity: str, arm: str = "", pipeline: str | None = "") -> Row | None:
        """A row, or None. pipeline: None for the first of any."""
        if pipeline is not None:
            return self._rows.get((quantity, arm, pipeline))
        return next((row for key, row in self._rows.items() if key[:2] == (quantity, arm)), None)

    def value(self, quantity: str, arm: str = "", pipeline: str | None = "") -> float | None:
        """Its value, or None."""
        row = self.row(quantity, arm, pipeline)
        return None if row is None else float(row["value"])

    def text(self, quantity: str, arm: str = "", pipeline: str | None = "") -> str:
        """Its value with its unit, or the empty string."""
        row = self.row(quantity, arm, pipeline)
        return "" if row is None else number(row["value"], row["unit"])

    def by_pipeline(self, quantity: str, arm: str = "") -> dict[str, Row]:
        """Rows of single pipelines."""
        return {key[2]: row for key, row in self._rows.items() if key[:2] == (quantity, arm) and key[2]}
